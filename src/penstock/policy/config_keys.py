"""Keys that a policy declares, for users who configure it under a name."""

from __future__ import annotations

from typing import NamedTuple


class ConfigKey(NamedTuple):
    """A key that a policy's ``configure()`` reads, as ``ConfigDef.ConfigKey`` of Kafka.

    If a class has ``config_keys``, a sequence of these, ``policies.<name>.<key>`` is checked at the
    start: the type of the value, missing keys and misspelt keys. ``penstock policies`` lists the
    keys::

        class MaxItems(RecordValidationPolicy):
            config_keys = (
                ConfigKey("items.max", "INT", documentation="The maximum.", required=True),
            )

    Attributes:
        name: The key. A part in angle brackets stands for a text that users choose:
            ``rules.<name>`` means ``rules.positive`` and ``rules.currency``.
        type: ``BOOLEAN``, ``CLASS``, ``DOUBLE``, ``INT``, ``LIST``, ``LONG``, ``PASSWORD`` or
            ``STRING``, as ``org.apache.kafka.common.config.ConfigDef.Type``. It decides
            what is checked. ``configure()`` receives text.
        default: The value without the key, as text, or None. It is only shown.
        documentation: A sentence for users.
        valid_values: The allowed values; empty for every value of the type.
        required: Whether the key must be set.
    """

    name: str
    type: str = "STRING"
    default: str | None = None
    documentation: str = ""
    valid_values: tuple[str, ...] = ()
    required: bool = False
