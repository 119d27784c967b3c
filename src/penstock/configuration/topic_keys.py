"""The table of topic level keys: everything that Penstock knows of a key stands here once.

The configuration file, the configs of topics that admin tools set and describe, the engine's
plan and Spark's plan read this table each time they need it. To add a key, add a row. What
acts on a key reads its value from `TopicPlan.settings`; where that is a policy, name in `reader`
the key of the file that configures the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import values

if TYPE_CHECKING:
    from collections.abc import Callable


class Scope(Flag):
    """Where a topic level key may stand."""

    FILE = auto()
    """In the configuration file under its own name: a default for every topic."""
    GLOB = auto()
    """In the configuration file as `topics.<glob>.<key>`: a default for the topics that match."""
    TOPIC = auto()
    """On the topic itself, set through Kafka's admin tools."""


@dataclass(frozen=True, slots=True)
class KeyType:
    """A type of config, as Kafka has it.

    Attributes:
        name: Of `org.apache.kafka.common.config.ConfigDef.Type`.
        number: Its number in DescribeConfigs.
        read: From the text to the value; raises ValueError, whose text completes the
            sentence "<key> must be ...".
        normalize: From the text that was given to the text that brokers describe.
        expected: What Kafka says it expected, where that is not what `read` says.
    """

    name: str
    number: int
    read: Callable[[str], object]
    normalize: Callable[[str], str]
    expected: str | None = None


BOOLEAN: Final = KeyType(
    "BOOLEAN",
    1,
    values.boolean,
    lambda value: value.strip().lower(),
    "value to be either true or false",
)
STRING: Final = KeyType("STRING", 2, str, str)
CLASS: Final = KeyType("CLASS", 8, values.class_name, str.strip)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKey:
    """One topic level key.

    Attributes:
        name: As it is written.
        type: Its type.
        meaning: A sentence for the configuration reference.
        documentation: A sentence for DescribeConfigs.
        default: Its value where neither the topic nor the file has one; None for null.
        scopes: Where it may stand.
        reader: The key of the file that names the policy which reads it: without that policy
            the key is an error. None where Penstock itself reads it.
    """

    name: str
    type: KeyType
    meaning: str
    documentation: str
    default: str | None = None
    scopes: Scope = Scope.GLOB | Scope.TOPIC
    reader: str | None = None


RECORDS_POLICY: Final = "records.policy.class.name"
RECORDS_POLICY_ENABLED: Final = "records.policy.enabled"
VALIDATION_POLICY: Final = "record.validation.policy"

TOPIC_KEYS: Final[dict[str, TopicKey]] = {
    key.name: key
    for key in (
        TopicKey(
            name=RECORDS_POLICY,
            type=CLASS,
            meaning="KIP-686: the `RecordsPolicy` of the topic.",
            documentation="KIP-686: the RecordsPolicy that judges batches of the topic.",
        ),
        TopicKey(
            name=RECORDS_POLICY_ENABLED,
            type=BOOLEAN,
            default="false",
            meaning="KIP-686: `true` switches it on. Default `false`.",
            documentation="KIP-686: whether the topic's RecordsPolicy judges its batches.",
        ),
        TopicKey(
            name=VALIDATION_POLICY,
            type=STRING,
            reader="record.validation.policy.class.name",
            meaning=(
                "KIP-940: switches the validation policy on for the topic, and is handed to it."
            ),
            documentation=(
                "KIP-940: switches the record validation policy on for the topic, and is handed "
                "to it."
            ),
        ),
    )
}
"""By name, in the order of the configuration reference."""


class TopicDefault(NamedTuple):
    """A default in the file: `topics.<glob>.<key>=<value>`, or a bare `<key>=<value>` for `*`."""

    glob: str
    key: str
    value: str


def keys_in(scope: Scope) -> dict[str, TopicKey]:
    """Return the keys that may stand in a scope, by name."""
    return {name: key for name, key in TOPIC_KEYS.items() if scope in key.scopes}
