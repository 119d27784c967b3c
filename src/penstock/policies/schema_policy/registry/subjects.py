"""The subjects of a schema registry under which a topic's schemas have to be.

Source: `TopicNameStrategy`, `RecordNameStrategy` and `TopicRecordNameStrategy` of Confluent's
`io.confluent.kafka.serializers.subject`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."


class SubjectNameStrategy(Enum):
    """How a subject is named."""

    TOPIC_NAME = "TopicNameStrategy"
    RECORD_NAME = "RecordNameStrategy"
    TOPIC_RECORD_NAME = "TopicRecordNameStrategy"

    @property
    def needs_record_name(self) -> bool:
        """Whether the name of the record's type is part of the subject."""
        return self is not SubjectNameStrategy.TOPIC_NAME


STRATEGY_NAMES: Final = tuple(
    prefix + strategy.value for strategy in SubjectNameStrategy for prefix in ("", _PACKAGE)
)
"""The allowed values in a configuration: short names, and those of the Java classes."""


def strategy(name: str) -> SubjectNameStrategy:
    """Return the strategy that a configuration names.

    Raises:
        ValueError: No strategy has this name; the text completes "<key>: ...".
    """
    try:
        return SubjectNameStrategy(name.strip().removeprefix(_PACKAGE))
    except ValueError:
        names = ", ".join(strategy.value for strategy in SubjectNameStrategy)
        raise ValueError(f"must be one of {names}, not {name.strip() or 'nothing'}") from None


def subject_of(
    strategy: SubjectNameStrategy, topic: str, record_name: str | None, *, is_key: bool
) -> str | None:
    """Return the subject under which a schema has to be.

    Args:
        strategy: How it is named.
        record_name: The full name of the record's type: of an Avro record, enum or fixed, of a
            Protobuf message, or the title of a JSON Schema. None where it has none.
        is_key: Whether it is the schema of keys.

    Returns:
        The subject; None if the strategy needs a name and there is none.
    """
    if strategy is SubjectNameStrategy.TOPIC_NAME:
        return f"{topic}-{'key' if is_key else 'value'}"
    if not record_name:
        return None
    if strategy is SubjectNameStrategy.RECORD_NAME:
        return record_name
    return f"{topic}-{record_name}"
