"""Keys that a policy declares, for topics to have beside `record.validation.policy`."""

from __future__ import annotations

from typing import NamedTuple


class TopicConfig(NamedTuple):
    """A topic level key that a class of `RecordValidationPolicy` declares.

    It is written and checked as Penstock's own keys are: `topics.<glob>.<name>=<value>` in the
    file, and on a topic through Kafka's admin tools. The policy reads it in
    ``TopicMetadata.configs``.

    Attributes:
        name: As it is written: letters, digits, dots, dashes and underscores. Neither a key of
            Kafka's topics nor one of Penstock.
        type: ``BOOLEAN``, ``STRING``, ``CLASS``, ``INT`` or ``LONG``, as
            ``org.apache.kafka.common.config.ConfigDef.Type``.
        default: The value where neither the topic nor the file has one; None for none.
        documentation: A sentence for those who describe the topic.
        valid_values: The values that it may have; empty for every value of the type.
        switches_on: Whether the policy judges a topic where this key is ``true``, also one
            without a ``record.validation.policy``; for ``BOOLEAN`` only.
    """

    name: str
    type: str = "STRING"
    default: str | None = None
    documentation: str = ""
    valid_values: tuple[str, ...] = ()
    switches_on: bool = False
