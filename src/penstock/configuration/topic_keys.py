"""The table of topic level keys.

The configuration file, the configs of topics that admin tools set and describe, the engine's
plan and Spark's plan read this table each time they need it. To add a key, add a row. What
acts on a key reads its value from `TopicPlan.settings`; where that is a policy, name in `reader`
the key of the file that configures the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.policy import TopicConfig


class Scope(Flag):
    """Where a topic level key may be set."""

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
        expectation: Kafka's text about the expected value, if it differs from that of `read`.
        complaint: Kafka's text about any other value, if it does not name the expected value.
    """

    name: str
    number: int
    read: Callable[[str], object]
    normalize: Callable[[str], str]
    expectation: str | None = None
    complaint: str | None = None


def _whole_number(name: str, number: int, bits: int, least: int | None = None) -> KeyType:
    lowest = -(2 ** (bits - 1)) if least is None else least
    expected = f"a whole number of at most {bits} bits" if least is None else None
    parser = values.whole_number(lowest, 2 ** (bits - 1) - 1, expected)
    return KeyType(name, number, parser, str.strip, complaint=f"Not a number of type {name}")


BOOLEAN: Final = KeyType(
    "BOOLEAN",
    1,
    values.boolean,
    lambda value: value.strip().lower(),
    "value to be either true or false",
)
STRING: Final = KeyType("STRING", 2, str, str)
CLASS: Final = KeyType("CLASS", 8, values.class_name, str.strip)
LIST: Final = KeyType("LIST", 7, values.items, lambda value: ",".join(values.items(value)))
_POLICIES_TYPE: Final = KeyType("LIST", LIST.number, values.policy_names, LIST.normalize)
OBSERVE: Final = "observe"
MARK: Final = "mark"
QUARANTINE: Final = "quarantine"
ENFORCE: Final = "enforce"
MODES: Final = (ENFORCE, QUARANTINE, MARK, OBSERVE)
"""The modes, the strictest first."""
_MODE_TYPE: Final = KeyType(
    "STRING",
    2,
    values.one_of(*MODES),
    lambda value: value.strip().lower(),
    complaint=f"String must be one of: {', '.join(MODES)}",
)
REASONS_OF_RECORDS: Final = "records"
REASONS_OF_BATCH: Final = "batch"
_REASONS: Final = (REASONS_OF_RECORDS, REASONS_OF_BATCH)
_REASONS_TYPE: Final = KeyType(
    "STRING",
    2,
    values.one_of(*_REASONS),
    lambda value: value.strip().lower(),
    complaint=f"String must be one of: {', '.join(_REASONS)}",
)
_DEAD_LETTER_NAME: Final = KeyType(
    "STRING",
    2,
    values.topic_template,
    str.strip,
    complaint="Not the name of a topic, which may have ${topic} in it and something beside it",
)
_RATIO: Final = KeyType(
    "DOUBLE", 6, values.ratio, str.strip, complaint="Not a number from 0.0 to 1.0"
)
KEY_TYPES: Final[dict[str, KeyType]] = {
    key_type.name: key_type
    for key_type in (
        BOOLEAN,
        STRING,
        CLASS,
        _whole_number("INT", 3, 32),
        _whole_number("LONG", 5, 64),
    )
}
"""The types that a policy may give to topic level keys (ConfigDef.Type, ConfigDef.parseType)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKey:
    """A topic level key.

    Attributes:
        name: As it is written.
        meaning: A sentence for the configuration reference.
        documentation: A sentence for DescribeConfigs.
        default: Its value if neither the topic nor the file sets it; None for null.
        scopes: Where it may be set.
        reader: The key of the file that names the policy which reads it: without that policy
            the key is an error. None where Penstock itself reads it.
        switches_on: Whether `true` switches the policy on that reads it.
    """

    name: str
    type: KeyType
    meaning: str
    documentation: str
    default: str | None = None
    scopes: Scope = Scope.GLOB | Scope.TOPIC
    reader: str | None = None
    switches_on: bool = False

    def value_in(self, settings: Mapping[str, str]) -> str | None:
        """Return the key's value among topic level keys, or its default if it is not set."""
        value = settings.get(self.name, self.default)
        return None if value is None else self.type.normalize(value)


RECORDS_POLICY: Final = "records.policy.class.name"
RECORDS_POLICY_ENABLED: Final = "records.policy.enabled"
VALIDATION_POLICY: Final = "record.validation.policy"
MODE: Final = "penstock.mode"
POLICIES: Final = "penstock.policies"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
DEAD_LETTER_REPLICAS: Final = "errors.deadletterqueue.topic.replication.factor"
DEAD_LETTER_HEADERS: Final = "errors.deadletterqueue.context.headers.enable"
QUARANTINE_MAX_RATIO: Final = "penstock.quarantine.max.ratio"
REJECTION_REASONS: Final = "produce.rejection.reasons"
ABOUT_BAD_RECORDS: Final = frozenset(
    {
        MODE,
        DEAD_LETTER_TOPIC,
        DEAD_LETTER_REPLICAS,
        DEAD_LETTER_HEADERS,
        QUARANTINE_MAX_RATIO,
        REJECTION_REASONS,
    }
)
"""The keys that decide about bad records, and enable no policy."""

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
            meaning="KIP-686: `true` enables it. Default `false`.",
            documentation="KIP-686: whether the topic's RecordsPolicy judges its batches.",
        ),
        TopicKey(
            name=VALIDATION_POLICY,
            type=STRING,
            reader="record.validation.policy.class.name",
            meaning=(
                "KIP-940: enables the validation policy for the topic. The policy gets the value."
            ),
            documentation=(
                "KIP-940: enables the record validation policy for the topic. The policy gets the "
                "value."
            ),
        ),
        TopicKey(
            name=MODE,
            type=_MODE_TYPE,
            default=ENFORCE,
            scopes=Scope.FILE | Scope.GLOB | Scope.TOPIC,
            meaning=(
                "What happens to a record that a policy refuses: `enforce`, `quarantine`, "
                "`mark` or `observe` ([bad records](modes.md)). The policies of KIP-108 and "
                "KIP-133 use only the file's value. Default `enforce`."
            ),
            documentation=(
                "enforce: a batch with a bad record is refused. quarantine: its bad records go to "
                "the dead letter topic, and the others are stored. mark: it is stored, and headers "
                "of its bad records have the policy and the reason. observe: policies run and are "
                "counted, but nothing is enforced."
            ),
        ),
        TopicKey(
            name=POLICIES,
            type=_POLICIES_TYPE,
            meaning=(
                "Names in `policies`, separated by commas. These policies judge the topic in "
                "this order, after those of the proposals' own keys. Interceptors run before "
                "all of them. [Named policies](built-in.md#named-policies)"
            ),
            documentation="The named policies that judge the topic's records, in order.",
        ),
        TopicKey(
            name=DEAD_LETTER_TOPIC,
            type=_DEAD_LETTER_NAME,
            default="${topic}.dead",
            scopes=Scope.FILE | Scope.GLOB | Scope.TOPIC,
            meaning=(
                "The topic for bad records with `penstock.mode=quarantine`. `${topic}` is the "
                "name of the record's topic. Default `${topic}.dead`. On a topic only a value of "
                "the file, or the default; [some topics](modes.md#quarantine) cannot have dead "
                "letters."
            ),
            documentation=(
                "The topic for bad records in quarantine. ${topic} is the name of this topic."
            ),
        ),
        TopicKey(
            name=DEAD_LETTER_REPLICAS,
            type=_whole_number("SHORT", 4, 16, least=1),
            default="3",
            scopes=Scope.FILE | Scope.GLOB,
            meaning=(
                "The replication factor of a dead letter topic that is created, as in Kafka "
                "Connect. A cluster with fewer brokers needs a smaller one. Default `3`."
            ),
            documentation="The replication factor of a dead letter topic that is created.",
        ),
        TopicKey(
            name=DEAD_LETTER_HEADERS,
            type=BOOLEAN,
            default="true",
            scopes=Scope.FILE | Scope.GLOB,
            meaning=(
                "Whether dead letters have headers with their source and the reason. With "
                "`false` they only have `__dlq.id` and `__dlq.plan`, and `penstock redrive` cannot "
                "read where they come from. Default `true` (in Kafka Connect it is `false`)."
            ),
            documentation=("Whether dead letters have headers with their source and the reason."),
        ),
        TopicKey(
            name=QUARANTINE_MAX_RATIO,
            type=_RATIO,
            default="1.0",
            scopes=Scope.FILE | Scope.GLOB | Scope.TOPIC,
            meaning=(
                "The largest share of bad records of a topic in a minute. Above it, batches with "
                "bad records are refused instead of quarantined. Fewer than ten bad records are "
                "always allowed. Default `1.0`: no limit."
            ),
            documentation=(
                "The largest share of bad records of the topic in a minute. Above it, batches "
                "with bad records are refused."
            ),
        ),
        TopicKey(
            name=REJECTION_REASONS,
            type=_REASONS_TYPE,
            default=REASONS_OF_RECORDS,
            scopes=Scope.FILE | Scope.GLOB | Scope.TOPIC,
            meaning=(
                "`records`: each bad record of a refused batch gets its reason (KIP-467). "
                "`batch`: all records get the first bad record's position and reason, for "
                "[programs](failures.md#clients) that show one error. Default `records`."
            ),
            documentation=(
                "records: each bad record of a refused batch gets its own reason. batch: all "
                "records of the batch get the position and the reason of its first bad record."
            ),
        ),
    )
}
"""By name, in the order of the configuration reference."""


def value_of(key: str, settings: Mapping[str, str]) -> str | None:
    """Return the value of a key that no policy declares; see `TopicKey.value_in`."""
    return TOPIC_KEYS[key].value_in(settings)


class TopicDefault(NamedTuple):
    """A default in the file: `topics.<glob>.<key>=<value>`, or a bare `<key>=<value>` for `*`."""

    glob: str
    key: str
    value: str


def key_of(declared: TopicConfig, reader: str) -> TopicKey:
    """Return the row of a key that a policy declares, whose type is one of `KEY_TYPES`."""
    key_type, allowed = KEY_TYPES[declared.type], declared.valid_values
    if allowed:
        parser = key_type.read

        def read_allowed(value: str) -> object:
            if key_type.normalize(value) not in allowed:
                raise ValueError(f"one of {', '.join(allowed)}")
            return parser(value)

        key_type = replace(
            key_type,
            read=read_allowed,
            expectation=None,
            complaint=f"String must be one of: {', '.join(allowed)}",
        )
    return TopicKey(
        name=declared.name,
        type=key_type,
        meaning=declared.documentation,
        documentation=declared.documentation,
        default=declared.default,
        reader=reader,
        switches_on=declared.switches_on,
    )


GROUP_DEAD_LETTERS: Final = "errors.deadletterqueue.group.enable"
"""Kafka's own key (KIP-1191): brokers may write the dead letters of share groups to the topic."""
KEYS_OF_KAFKA: Final = frozenset(
    {
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        GROUP_DEAD_LETTERS,
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.decompressed.message.bytes",
        "max.message.bytes",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""Configs of topics that brokers have (LogConfig.java, TopicConfig.java), of any version."""

_in_force: dict[str, TopicKey] = {}
_ever_in_force: dict[str, TopicKey] = {}
"""All keys that were declared since the start, for requests that began before a change."""


def put_in_force(declared: Mapping[str, TopicKey]) -> None:
    """Replace the topic level keys of the previous policy by those of a new policy.

    This is about the configs of topics in this process; each plan knows the keys of its own
    configuration.
    """
    global _in_force  # noqa: PLW0603 - replaced as a whole
    _in_force = dict(declared)
    _ever_in_force.update(declared)


def key_named(name: str) -> TopicKey:
    """Return a key that topics may have, now or when a request began.

    Raises:
        KeyError: There is and was none.
    """
    return TOPIC_KEYS.get(name) or _in_force.get(name) or _ever_in_force[name]


def keys_in(scope: Scope, declared: Mapping[str, TopicKey] | None = None) -> dict[str, TopicKey]:
    """Return the keys that may be set in a scope, by name.

    Args:
        declared: Those of the validation policy; those in force in this process by default.
    """
    keys = {**TOPIC_KEYS, **(_in_force if declared is None else declared)}
    return {name: key for name, key in keys.items() if scope in key.scopes}
