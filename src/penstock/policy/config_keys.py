"""Keys that a policy declares, for users who configure it under a name."""

from __future__ import annotations

from typing import NamedTuple


class ConfigKey(NamedTuple):
    """A key that a policy's ``configure()`` reads, as ``ConfigDef.ConfigKey`` of Kafka.

    A class that has ``config_keys``, a sequence of these, has what stands in the file as
    ``policies.<name>.<key>`` checked at start: a value of another type, a key that is missing, a
    key that is misspelt. ``penstock policies`` lists them::

        class MaxItems(RecordValidationPolicy):
            config_keys = (
                ConfigKey("items.max", "INT", documentation="The most items.", required=True),
            )

    Attributes:
        name: As it is written. A part in angle brackets stands for what a user chooses:
            ``rules.<name>`` is for ``rules.positive`` and for ``rules.currency``.
        type: ``BOOLEAN``, ``CLASS``, ``DOUBLE``, ``INT``, ``LIST``, ``LONG``, ``PASSWORD`` or
            ``STRING``, as ``org.apache.kafka.common.config.ConfigDef.Type``. It says what is
            checked: ``configure()`` gets text.
        default: The value without the key, as text; None for none. It is shown, and not filled in.
        documentation: A sentence for users.
        valid_values: The values that it may have; empty for every value of the type.
        required: Whether a policy cannot do without.
    """

    name: str
    type: str = "STRING"
    default: str | None = None
    documentation: str = ""
    valid_values: tuple[str, ...] = ()
    required: bool = False
