"""Topic level keys that a policy declares."""

from __future__ import annotations

from typing import NamedTuple


class TopicConfig(NamedTuple):
    """A topic level key that a class of `RecordValidationPolicy` declares.

    It is set and checked as Penstock's own keys are: as `topics.<glob>.<name>=<value>` in the file,
    or on a topic through Kafka's admin tools. The policy reads it in ``TopicMetadata.configs``.

    Attributes:
        name: The key, of letters, digits, dots, dashes and underscores. Not a key of Kafka's topics
            or of Penstock.
        type: ``BOOLEAN``, ``STRING``, ``CLASS``, ``INT`` or ``LONG``, as
            ``org.apache.kafka.common.config.ConfigDef.Type``.
        default: The value if neither the topic nor the file sets the key, or None.
        documentation: A sentence for users who describe the topic.
        valid_values: The allowed values; empty for every value of the type.
        switches_on: Whether the policy judges a topic if this key is ``true``, also without a
            ``record.validation.policy``; only for ``BOOLEAN``.
    """

    name: str
    type: str = "STRING"
    default: str | None = None
    documentation: str = ""
    valid_values: tuple[str, ...] = ()
    switches_on: bool = False
