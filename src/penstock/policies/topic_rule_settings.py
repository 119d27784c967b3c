"""The keys `topic.rules.*` of the configuration file: their types, and the rules that they set."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from penstock.policies.topic_patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

PREFIX: Final = "topic.rules."
NAME: Final = "topic.rules.name.pattern"
PARTITIONS: Final = "topic.rules.partitions"
REPLICAS: Final = "topic.rules.replication.factor"
ALLOWED: Final = "topic.rules.configs.allowed"
REQUIRED: Final = "topic.rules.configs.required"
RETENTION_BOUNDS: Final = "topic.rules.retention.ms"
GROUP_CONFIGS: Final = "topic.rules.group.configs.allowed"
INTERNAL_TOPICS: Final = "topic.rules.internal.topics"
EXEMPT: Final = "topic.rules.exempt"

_RETENTION: Final = "retention.ms"
_UNLIMITED: Final = Decimal("Infinity")

# Wider than int(): every text that the broker reads as a number (trim(), then Long.parseLong) must
# be read as that number here, or it would not be judged.
_BROKER_NUMBER: Final = re.compile(r"[\x00-\x20]*([+-]?\d+)[\x00-\x20]*")
_REQUIRED_CONFIG: Final = re.compile(r"([\w.-]+)(?:\s*=\s*(.+))?")
_CONFIG_GLOB: Final = re.compile(r"(?:[\w.*?-]|\[!?[\w.-]+\])+")
_TOPIC_GLOB: Final = re.compile(r"(?:[a-zA-Z0-9._*?-]|\[!?[a-zA-Z0-9._-]+\]){1,249}")
_NAMES_AND_VALUES: Final = "names of configs, or name=value, separated by commas, each name once"
_REPLICAS_LIST: Final = re.compile(r"\*|\d+:\d+")
_LISTS: Final = {
    "cleanup.policy": re.compile(r"compact|delete"),
    "follower.replication.throttled.replicas": _REPLICAS_LIST,
    "leader.replication.throttled.replicas": _REPLICAS_LIST,
    "penstock.policies": re.compile(r"(?!preallocate\Z)[A-Za-z0-9_-]+"),
}
"""Configs whose values are lists, with what an item can be."""
_NUMBERS: Final = re.compile(
    r"(?:delete\.retention|file\.delete\.delay|flush|(?:local\.)?retention|segment(?:\.jitter)?"
    r"|m(?:ax|in)\.compaction\.lag|message\.timestamp\.(?:after|before|difference)\.max)\.ms"
    r"|(?:index\.interval|(?:local\.)?retention|max\.message|segment(?:\.index)?)\.bytes"
    r"|flush\.messages|min\.insync\.replicas|compression\.(?:gzip|lz4|zstd)\.level"
)
"""Configs whose values are whole numbers."""
_BOOLEANS: Final = re.compile(
    r"preallocate|unclean\.leader\.election\.enable|remote\.storage\.enable"
    r"|remote\.log\.(?:copy\.disable|delete\.on\.disable)"
)
"""Configs whose values are true or false, in any letter case."""
_IN_ORDER: Final = "penstock.policies"
"""The list whose order matters."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The minimum and maximum of a number; None where there is no such bound.

    Attributes:
        key: What the two keys start with, like `topic.rules.partitions`.
        minimum: The value of `<key>.min`.
        maximum: The value of `<key>.max`.
        unit: The unit after the numbers in messages.

    Raises:
        ValueError: No number is within the bounds.
    """

    key: str
    minimum: int | None
    maximum: int | None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(
                f"{self.key}.min must be at most {self.maximum}, the value of {self.key}.max, "
                f"not {self.minimum}"
            )

    def broken_by(self, number: int | Decimal) -> str | None:
        """Return which bound the number breaks, or None where it is within them."""
        if self.minimum is not None and number < self.minimum:
            return f"at least {self._shown(self.minimum)} required ({self.key}.min)"
        if self.maximum is not None and number > self.maximum:
            return f"at most {self._shown(self.maximum)} allowed ({self.key}.max)"
        return None

    def _shown(self, bound: int) -> str:
        return f"{bound}{self.unit} {'is' if bound == 1 else 'are'}"


@dataclass(frozen=True, slots=True)
class TopicRuleSettings:
    """The rules of a configuration file; `read` makes them.

    Attributes:
        name: The pattern for the complete name of a topic, or None.
        partitions: How many partitions a topic may have.
        replicas: How many replicas a partition may have.
        retention: Which `retention.ms` may be given.
        allowed_configs: Names and globs of the configs that may be given; empty for all.
        required: The configs that must be given: the value that each must have, or None
            where any value will do.
        judges_internal_topics: Whether topics whose names start with `__` are judged.
        allowed_of_groups: As `allowed_configs`, for the configs of groups.
        exempt: Names and globs of the topics for which no rule holds.

    Raises:
        ValueError: The rules contradict each other.
    """

    name: re.Pattern[str] | None
    partitions: Bounds
    replicas: Bounds
    retention: Bounds
    allowed_configs: tuple[str, ...]
    required: Mapping[str, str | None]
    judges_internal_topics: bool
    allowed_of_groups: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.required:
            if not self.allows(name):
                raise ValueError(
                    f"{REQUIRED} must only name configs that {ALLOWED} allows: add {name} to "
                    f"{ALLOWED}, or remove it from {REQUIRED}"
                )
        for objection in self.retention_objections(self.required):
            raise ValueError(f"{REQUIRED} must keep the other rules; it {objection}")

    @classmethod
    def read(cls, configs: Mapping[str, str], rules: Collection[str]) -> TopicRuleSettings:
        """Read the keys that start with `topic.rules.`; all others are passed over.

        Args:
            configs: The configuration file, as text by key.
            rules: The keys, at least one of which must be set.

        Raises:
            ValueError: A key is unknown, a value is invalid, rules contradict
                each other, or none of `rules` is set.
        """
        values = {key: _value(key, text) for key, text in configs.items() if key.startswith(PREFIX)}
        if values.keys().isdisjoint(rules):
            raise ValueError(f"there is no rule: set one of {', '.join(rules)}")
        return cls(
            name=values.get(NAME),
            partitions=_bounds(values, PARTITIONS),
            replicas=_bounds(values, REPLICAS),
            retention=_bounds(values, RETENTION_BOUNDS, unit=" ms"),
            allowed_configs=values.get(ALLOWED, ()),
            required=values.get(REQUIRED, {}),
            judges_internal_topics=values.get(INTERNAL_TOPICS, "skip") == "judge",
            allowed_of_groups=values.get(GROUP_CONFIGS, ()),
            exempt=values.get(EXEMPT, ()),
        )

    def judges(self, topic: str) -> bool:
        """Return whether the rules hold for the topic."""
        is_exempt = any(fnmatchcase(topic, glob) for glob in self.exempt)
        return not is_exempt and (self.judges_internal_topics or not topic.startswith("__"))

    def is_met(self, name: str, value: str | None) -> bool:
        """Return whether a required config has the right value; None where it has none.

        Values compare as brokers read them: 02 is 2, and TRUE is true. Lists compare without the
        blanks around items, and in any order except for that of policies.
        """
        required_value = self.required[name]
        if value is None or required_value is None:
            return value is not None
        if name not in _LISTS:
            return _as_read(name, value) == _as_read(name, required_value)
        items, required_items = _entries(value), _entries(required_value)
        return items == required_items if name == _IN_ORDER else set(items) == set(required_items)

    def allows(self, config: str) -> bool:
        """Return whether the config may be given."""
        return _is_allowed(config, self.allowed_configs)

    def allows_of_group(self, config: str) -> bool:
        """Return whether the config of a group may be given."""
        return _is_allowed(config, self.allowed_of_groups)

    def retention_objections(self, configs: Mapping[str, str | None]) -> Iterator[str]:
        """Return which bound the `retention.ms` among the configs breaks, if it breaks any.

        A value that is not a number breaks none: the broker refuses it.
        """
        match = _BROKER_NUMBER.fullmatch(configs.get(_RETENTION) or "")
        if match is None:
            return
        number = Decimal(match[1])
        unlimited = number == -1
        limit = self.retention.broken_by(_UNLIMITED if unlimited else number)
        if limit:
            meaning = ", which is unlimited" if unlimited else ""
            yield f"asks for {_RETENTION}={number}{meaning}; {limit}"


def _value(key: str, text: str) -> Any:
    if key not in _READERS:
        near = difflib.get_close_matches(
            key.removeprefix(PREFIX), [name.removeprefix(PREFIX) for name in _READERS], n=1
        )
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(_READERS)}"
        raise ValueError(f"{key} is unknown; {hint}")
    try:
        return _READERS[key](text.strip())
    except ValueError as error:
        raise ValueError(f"{key} must be {error}") from None


def _is_allowed(config: str, globs: tuple[str, ...]) -> bool:
    return not globs or any(fnmatchcase(config, glob) for glob in globs)


def _bounds(values: Mapping[str, Any], key: str, *, unit: str = "") -> Bounds:
    return Bounds(key, values.get(f"{key}.min"), values.get(f"{key}.max"), unit)


# Readers take the text without the space around it. What they raise completes the sentence
# "<key> must be ...".


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise ValueError("a regular expression, not nothing")
    try:
        return compile_pattern(text)
    except ValueError as error:
        raise ValueError(f"a regular expression: {error}") from None


def _whole_number(minimum: int, maximum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = minimum - 1
        if not minimum <= number <= maximum:
            raise ValueError(f"a whole number from {minimum} to {maximum}, not {text or 'nothing'}")
        return number

    return read


def _allowed(text: str) -> tuple[str, ...]:
    globs = _entries(text)
    if not globs or not all(map(_CONFIG_GLOB.fullmatch, globs)):
        raise ValueError("names of configs, or globs like retention.*, separated by commas")
    return globs


def _required(text: str) -> dict[str, str | None]:
    required: dict[str, str | None] = {}
    name = ""
    for entry in _entries(text):
        value = required.get(name)
        if value is not None and name in _LISTS and _LISTS[name].fullmatch(entry):
            required[name] = f"{value},{entry}"
            continue
        match = _REQUIRED_CONFIG.fullmatch(entry)
        if match is None or match[1] in required:
            raise ValueError(_NAMES_AND_VALUES)
        name = match[1]
        if match[2] is not None and not _may_be_accepted(name, match[2]):
            raise ValueError(f"values that brokers accept, not {name}={match[2]}")
        required[name] = match[2]
    if not required:
        raise ValueError(_NAMES_AND_VALUES)
    return required


def _as_read(name: str, text: str) -> object:
    """Return the value of a config as a broker reads it."""
    number = _BROKER_NUMBER.fullmatch(text) if _NUMBERS.fullmatch(name) else None
    if number is not None:
        return Decimal(number[1])
    return text.strip().lower() if _BOOLEANS.fullmatch(name) else text.strip()


def _may_be_accepted(name: str, text: str) -> bool:
    """Return whether brokers may accept a value of a config, or an item of its list."""
    if _BOOLEANS.fullmatch(name):
        return text.strip().lower() in {"true", "false"}
    pattern = _BROKER_NUMBER if _NUMBERS.fullmatch(name) else _LISTS.get(name)
    return pattern is None or pattern.fullmatch(text) is not None


def _internal_topics(text: str) -> str:
    if text.lower() not in {"skip", "judge"}:
        raise ValueError(f"skip or judge, not {text or 'nothing'}")
    return text.lower()


def _exempt(text: str) -> tuple[str, ...]:
    globs = _entries(text)
    if not globs or not all(map(_TOPIC_GLOB.fullmatch, globs)):
        raise ValueError("names of topics, or globs like connect-*, separated by commas")
    return globs


def _entries(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


_TOPIC_READERS: Final[dict[str, Callable[[str], Any]]] = {
    NAME: _pattern,
    f"{PARTITIONS}.min": _whole_number(1, 2**31 - 1),
    f"{PARTITIONS}.max": _whole_number(1, 2**31 - 1),
    f"{REPLICAS}.min": _whole_number(1, 2**15 - 1),
    f"{REPLICAS}.max": _whole_number(1, 2**15 - 1),
}
_CONFIG_READERS: Final[dict[str, Callable[[str], Any]]] = {
    ALLOWED: _allowed,
    REQUIRED: _required,
    f"{RETENTION_BOUNDS}.min": _whole_number(0, 2**63 - 1),
    f"{RETENTION_BOUNDS}.max": _whole_number(0, 2**63 - 1),
}
_GROUP_READERS: Final[dict[str, Callable[[str], Any]]] = {GROUP_CONFIGS: _allowed}
_READERS: Final = {
    **_TOPIC_READERS,
    **_CONFIG_READERS,
    **_GROUP_READERS,
    INTERNAL_TOPICS: _internal_topics,
    EXEMPT: _exempt,
}

CONFIG_RULES: Final = (*_CONFIG_READERS, *_GROUP_READERS)
"""The keys of the rules over configs."""
TOPIC_RULES: Final = (*_TOPIC_READERS, *_CONFIG_READERS)
"""The keys of the rules over new topics."""
