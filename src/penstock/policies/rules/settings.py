"""The keys of `Rules`: the rules, and how keys and values are read."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.policies.own_keys import accepts, one_of
from penstock.policy import ConfigKey

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "rules."
FORMAT: Final = "format"
KEY_FORMAT: Final = "key.format"
NULL_VALUES: Final = "null.values"
SCHEMA_FILE: Final = "schema.file"
MOST_RULES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_LONGEST_MESSAGE: Final = 500
_LONGEST_SHOWN: Final = 200


class RuleScope(Enum):
    """What a rule is about."""

    RECORD = "record"
    BATCH = "batch"


class Format(Enum):
    """How bytes are read."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    STRING = "string"
    BYTES = "bytes"


WITHOUT_FIELDS: Final = frozenset({Format.STRING, Format.BYTES})
_FORMATS: Final = tuple(choice.value for choice in Format)
CONFIG_KEYS: Final = (
    ConfigKey(f"{PREFIX}<name>", documentation="A condition in CEL that must be true."),
    ConfigKey(
        f"{PREFIX}<name>.message",
        documentation="The message for records that do not fulfil it. Default: the condition.",
    ),
    ConfigKey(
        f"{PREFIX}<name>.scope",
        default="record",
        documentation="Whether the condition is about a record or about the batch.",
        valid_values=tuple(scope.value for scope in RuleScope),
    ),
    ConfigKey(FORMAT, default="json", documentation="The format of values.", valid_values=_FORMATS),
    ConfigKey(
        KEY_FORMAT, default="string", documentation="The format of keys.", valid_values=_FORMATS
    ),
    ConfigKey(
        NULL_VALUES,
        default="accept",
        documentation="`accept` or `refuse` records without a value, if a rule reads values.",
        valid_values=("accept", "refuse"),
    ),
    ConfigKey(
        SCHEMA_FILE,
        documentation="The schema of Avro or Protobuf: `order.avsc`, `order.proto#shop.Order`.",
    ),
)


class RuleText(NamedTuple):
    """A rule as it is written.

    Attributes:
        failure_text: The text where it does not hold: its message, or the condition.
        scope: What it is about.
    """

    name: str
    expression: str
    failure_text: str
    scope: RuleScope

    @property
    def key(self) -> str:
        """The key that declares it."""
        return PREFIX + self.name


class RulesSettings(NamedTuple):
    """The values of the keys.

    Attributes:
        rules: In the order of the file.
        value_format: How values are read.
        key_format: How keys are read.
        null_values: Whether a record without a value passes the rules that read values.
    """

    rules: tuple[RuleText, ...]
    value_format: Format
    key_format: Format
    null_values: bool

    @classmethod
    def read(cls, configs: Mapping[str, str]) -> RulesSettings:
        """Read the keys out of a configuration.

        Raises:
            ValueError: A key is wrong, or there is no rule.
        """
        rules = tuple(
            _rule(key, configs) for key in configs if key.startswith(PREFIX) and _is_rule(key)
        )
        if not rules:
            raise ValueError(
                f"there is no rule: set {PREFIX}<name> to a condition, "
                f"like {PREFIX}positive=value.amount > 0"
            )
        if len(rules) > MOST_RULES:
            raise ValueError(f"{PREFIX}*: there are {len(rules)} rules, more than {MOST_RULES}")
        _check_parts(configs, {rule.name for rule in rules})
        value_format = Format(one_of(configs, FORMAT, "json", _FORMATS))
        key_format = Format(one_of(configs, KEY_FORMAT, "string", _FORMATS))
        return cls(
            rules,
            value_format,
            key_format,
            accepts(configs, NULL_VALUES, "accept"),
        )


def _is_rule(key: str) -> bool:
    return "." not in key[len(PREFIX) :]


def _rule(key: str, configs: Mapping[str, str]) -> RuleText:
    name = key[len(PREFIX) :]
    if not _NAME.fullmatch(name):
        raise ValueError(f"{key}: a rule's name has letters, digits, _ and -, at most 100 of them")
    expression = configs[key].strip()
    if not expression:
        raise ValueError(f"{key} must be a condition in CEL, like value.amount > 0")
    message = configs.get(f"{key}.message", "").strip()
    if len(message) > _LONGEST_MESSAGE:
        raise ValueError(f"{key}.message has more than {_LONGEST_MESSAGE} characters")
    scope = one_of(configs, f"{key}.scope", "record", tuple(choice.value for choice in RuleScope))
    shown = message or " ".join(expression.split())[:_LONGEST_SHOWN]
    return RuleText(name, expression, shown, RuleScope(scope))


def _check_parts(configs: Mapping[str, str], names: set[str]) -> None:
    for key in configs:
        if not key.startswith(PREFIX) or _is_rule(key):
            continue
        name, _, part = key[len(PREFIX) :].partition(".")
        if part not in {"message", "scope"}:
            raise ValueError(f"{key} is unknown; a rule has {PREFIX}{name}.message and .scope")
        if name not in names:
            raise ValueError(f"{key}: there is no rule {PREFIX}{name}")
