"""The topic level keys as configs of a topic: their types, their defaults, what they may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.values import boolean, class_name

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDS_POLICY: Final = "records.policy.class.name"
RECORDS_POLICY_ENABLED: Final = "records.policy.enabled"
VALIDATION_POLICY: Final = "record.validation.policy"


SET_ON_TOPIC: Final = 1
DEFAULT: Final = 5
"""Sources of a config's value, as DescribeConfigs numbers them: DYNAMIC_TOPIC_CONFIG and
DEFAULT_CONFIG."""


VALUE_MOST_BYTES: Final = 4096


class TopicKey(NamedTuple):
    """One key, as Kafka describes a config.

    Attributes:
        type_name: Of `org.apache.kafka.common.config.ConfigDef.Type`.
        type_id: Its number in DescribeConfigs.
        default: Its value where neither the topic nor the file says another; None for null.
        documentation: A sentence for DescribeConfigs.
    """

    type_name: str
    type_id: int
    default: str | None
    documentation: str


KEYS: Final[dict[str, TopicKey]] = {
    VALIDATION_POLICY: TopicKey(
        "STRING",
        2,
        None,
        "KIP-940: switches the record validation policy on for the topic, and is handed to it.",
    ),
    RECORDS_POLICY: TopicKey(
        "CLASS", 8, None, "KIP-686: the RecordsPolicy that judges batches of the topic."
    ),
    RECORDS_POLICY_ENABLED: TopicKey(
        "BOOLEAN", 1, "false", "KIP-686: whether the topic's RecordsPolicy judges its batches."
    ),
}
"""By name, in the order of the names."""


def own(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return those of some configs that are kept by Penstock."""
    return {name: value for name, value in configs.items() if name in KEYS}


def normal(name: str, value: str) -> str:
    """Return a value as brokers tell one of its type."""
    if name == RECORDS_POLICY_ENABLED:
        return value.strip().lower()
    return value.strip() if name == RECORDS_POLICY else value


def complaint(name: str, value: str) -> str | None:
    """Return what is wrong with a value, as Kafka's ConfigException does, or None."""
    why = None
    if len(value.encode("utf-8", "replace")) > VALUE_MOST_BYTES:
        return f"Invalid value for configuration {name}: it is longer than {VALUE_MOST_BYTES} bytes"
    if name == RECORDS_POLICY_ENABLED:
        try:
            boolean(value)
        except ValueError:
            why = "Expected value to be either true or false"
    elif name == RECORDS_POLICY:
        try:
            class_name(value)
        except ValueError as error:
            why = f"Expected {error}"
    return why and invalid(name, value, why)


def invalid(name: str, value: str, why: str) -> str:
    """State that a value may not be set, as Kafka's ConfigException does."""
    return f"Invalid value {value} for configuration {name}: {why}"
