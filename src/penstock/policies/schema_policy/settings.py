"""The keys that `SchemaPolicy` reads: of a topic, and of the configuration file.

Sources: Confluent's broker-side schema validation (`confluent.*`); the others are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.policies.json_schema.settings import judges_formats
from penstock.policies.schema_policy.registry.settings import PREFIX
from penstock.policies.schema_policy.registry.subjects import (
    STRATEGY_NAMES,
    SubjectNameStrategy,
    strategy,
)
from penstock.policies.schema_policy.wire_format import SchemaIdHeader, SchemaIdLocation
from penstock.policy import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUE_VALIDATION: Final = "confluent.value.schema.validation"
KEY_VALIDATION: Final = "confluent.key.schema.validation"
VALUE_STRATEGY: Final = "confluent.value.subject.name.strategy"
KEY_STRATEGY: Final = "confluent.key.subject.name.strategy"
LEVEL: Final = "schema.validation.level"
LOCATION: Final = "schema.id.location"
HEADER: Final = "schema.id.header.position"
VERSIONS: Final = "schema.versions"
FILE: Final = "schema.file"
UNUSABLE: Final = "schema.unusable"

NULL_VALUES: Final = "schema.null.values"
NULL_KEYS: Final = "schema.null.keys"
UNKNOWN_FIELDS: Final = "schema.protobuf.unknown.fields"


class Level(Enum):
    """How much of a record is judged."""

    ID = "id"
    """The id alone: the registry knows it, under the topic's subject."""
    PAYLOAD = "payload"
    """And the payload fits the schema, to its very end."""
    RULES = "rules"
    """And the conditions of the schema's data contract hold."""


TOPIC_CONFIGS: Final = (
    TopicConfig(
        VALUE_VALIDATION,
        "BOOLEAN",
        "false",
        "SchemaPolicy: whether values are validated against their schemas.",
        switches_on=True,
    ),
    TopicConfig(
        KEY_VALIDATION,
        "BOOLEAN",
        "false",
        "SchemaPolicy: whether keys are validated against their schemas.",
        switches_on=True,
    ),
    TopicConfig(
        VALUE_STRATEGY,
        "STRING",
        "TopicNameStrategy",
        "SchemaPolicy: how the subject of a value's schema is named.",
        STRATEGY_NAMES,
    ),
    TopicConfig(
        KEY_STRATEGY,
        "STRING",
        "TopicNameStrategy",
        "SchemaPolicy: how the subject of a key's schema is named.",
        STRATEGY_NAMES,
    ),
    TopicConfig(
        LEVEL,
        "STRING",
        "payload",
        "SchemaPolicy: validate the schema's id, also the payload, or also the rules of its data "
        "contract and within the schema.",
        tuple(level.value for level in Level),
    ),
    TopicConfig(
        LOCATION,
        "STRING",
        "any",
        "SchemaPolicy: where the schema's id must be: before the payload, in a header, or in "
        "either.",
        tuple(location.value for location in SchemaIdLocation),
    ),
    TopicConfig(
        HEADER,
        "STRING",
        "last",
        "SchemaPolicy: which of several headers has the schema's id.",
        tuple(header.value for header in SchemaIdHeader),
    ),
    TopicConfig(
        VERSIONS,
        "STRING",
        "any",
        "SchemaPolicy: whether any version of the subject passes, or only the latest.",
        ("any", "latest"),
    ),
    TopicConfig(
        FILE,
        "STRING",
        None,
        "SchemaPolicy: a schema file instead of a registry, or key=FILE,value=FILE.",
    ),
    TopicConfig(
        UNUSABLE,
        "STRING",
        "refuse",
        "SchemaPolicy: whether records are postponed (7) or accepted while their schema, or a rule "
        "of it, is unusable.",
        ("refuse", "accept"),
    ),
)
"""The topic level keys, for the file and for `kafka-configs`."""

FILE_KEYS: Final = {
    NULL_VALUES: (
        "accept",
        "`accept` or `refuse` records without a value (tombstones), if values are validated.",
    ),
    NULL_KEYS: ("accept", "`accept` or `refuse` records without a key, if keys are validated."),
    UNKNOWN_FIELDS: (
        "refuse",
        "`refuse` or `accept` Protobuf messages with fields that the schema does not have.",
    ),
}
"""Keys of the configuration file, with defaults and meanings for the configuration reference."""


_DEADLINES: Final = (
    ("policy.preparation.timeout.ms", 10_000, 0.8),
    ("policy.timeout.ms", 5000, 0.5),
)
"""Deadlines at which a worker is killed, their defaults, and how much of each look-ups may take."""


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The values of `FILE_KEYS`: whether a null passes, and unknown fields.

    Attributes:
        formats: Whether `format` of JSON Schemas is judged: `json.schema.formats`, the key of
            `JsonSchema`.
        preparation_s: How long the look-ups of a batch may take together, in seconds.
        judging_s: The same of those that are needed once more while it is judged.
    """

    null_values: bool
    null_keys: bool
    unknown_fields: bool
    formats: bool
    preparation_s: float
    judging_s: float

    @classmethod
    def read(cls, configs: Mapping[str, str]) -> FileSettings:
        """Read the keys out of a configuration.

        Raises:
            ValueError: A key has an invalid value, or is unknown.
        """
        # Of a policy with a name, the topic level keys are among its own.
        known_keys = {*FILE_KEYS, *(config.name for config in TOPIC_CONFIGS)}
        for key in configs:
            if key.startswith("schema.") and not key.startswith(PREFIX) and key not in known_keys:
                raise ValueError(
                    f"{key} is unknown; there are {', '.join(FILE_KEYS)} and {PREFIX}*"
                )
        preparation_s, judging_s = (
            int(configs.get(key, ms)) / 1000 * share for key, ms, share in _DEADLINES
        )
        return cls(
            _accepts(configs, NULL_VALUES),
            _accepts(configs, NULL_KEYS),
            _accepts(configs, UNKNOWN_FIELDS),
            formats=judges_formats(configs),
            preparation_s=preparation_s,
            judging_s=judging_s,
        )


def _accepts(configs: Mapping[str, str], key: str) -> bool:
    value = configs.get(key, FILE_KEYS[key][0]).strip().lower()
    if value not in {"accept", "refuse"}:
        raise ValueError(f"{key} must be accept or refuse, not {value or 'nothing'}")
    return value == "accept"


class SchemaFileName(NamedTuple):
    """A schema's file, and which message of it for Protobuf."""

    name: str
    message: str | None


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The topic level keys of one topic.

    Attributes:
        sides: Whether keys (True) or values (False) are judged, keys first.
        strategies: How subjects are named, by the same.
        level: How much is judged.
        location: Where ids have to be.
        header: Which of several headers has the id.
        latest: Whether only the latest version of the subject is accepted.
        files: Files instead of the registry, by the same keys as `sides`; empty for the registry.
        accepts_unusable: Whether records with unusable schemas or rules are accepted.
    """

    sides: tuple[bool, ...]
    strategies: Mapping[bool, SubjectNameStrategy]
    level: Level
    location: SchemaIdLocation
    header: SchemaIdHeader
    latest: bool
    files: Mapping[bool, SchemaFileName]
    accepts_unusable: bool = False

    @classmethod
    def read(cls, configs: Mapping[str, str]) -> TopicSettings:
        """Read the keys, with their defaults where they are not given.

        Args:
            configs: As `TopicMetadata.configs`.

        Raises:
            ValueError: A key has a value that it cannot have; the text names it.
        """
        settings = {
            config.name: configs.get(config.name, config.default) for config in TOPIC_CONFIGS
        }
        for config in TOPIC_CONFIGS:
            if config.valid_values and settings[config.name] not in config.valid_values:
                raise ValueError(
                    f"{config.name} must be one of {', '.join(config.valid_values)}, "
                    f"not {settings[config.name]}"
                )
        files = file_names(settings[FILE])
        keys, values = settings[KEY_VALIDATION] == "true", settings[VALUE_VALIDATION] == "true"
        for is_key, key, is_judged in (
            (True, KEY_VALIDATION, keys),
            (False, VALUE_VALIDATION, values),
        ):
            if is_judged and files and is_key not in files:
                raise ValueError(
                    f"{FILE} names no schema of {'keys' if is_key else 'values'}, and {key} is true"
                )
        return cls(
            sides=(True,) * keys + (False,) * values,
            strategies={
                True: strategy(settings[KEY_STRATEGY] or ""),
                False: strategy(settings[VALUE_STRATEGY] or ""),
            },
            level=Level(settings[LEVEL]),
            location=SchemaIdLocation(settings[LOCATION]),
            header=SchemaIdHeader(settings[HEADER]),
            latest=settings[VERSIONS] == "latest",
            files=files,
            accepts_unusable=settings[UNUSABLE] == "accept",
        )


def file_names(text: str | None) -> dict[bool, SchemaFileName]:
    """Read `order.avsc`, `order.proto#shop.Order` or `key=id.avsc,value=order.json`."""
    files: dict[bool, SchemaFileName] = {}
    if text is None or not text.strip():
        return files
    for part in text.split(","):
        side, equals, rest = (text.strip() for text in part.partition("="))
        if not equals:
            side, rest = "value", side
        name, hash_sign, message = (text.strip() for text in rest.partition("#"))
        is_key = side == "key"
        if (
            side not in {"key", "value"}
            or not name
            or is_key in files
            or (hash_sign and not message)
        ):
            raise ValueError(
                f"{FILE} must be FILE, or key=FILE,value=FILE, each with #MESSAGE where it is a "
                f".proto, not {text}"
            )
        files[is_key] = SchemaFileName(name, message or None)
    return files
