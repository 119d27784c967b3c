"""Patterns for the topics that may lose records, by the configuration file.

A gateway announces them to others, which do not have its file. So they are regular expressions, and
exact: a topic that they match without need waits for ten minutes after each start. A condition is
an assertion at the beginning of a topic's name: `(?=...)`, or `(?!...)` for the opposite.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase, translate
from functools import cache
from typing import TYPE_CHECKING, Final

from penstock.configuration.globs import is_glob
from penstock.configuration.topic_keys import (
    MODE,
    OBSERVE,
    POLICIES,
    QUARANTINE,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    TOPIC_KEYS,
    VALIDATION_POLICY,
)
from penstock.configuration.values import items
from penstock.engine.plans.framework_topics import NAMES_OF_FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.configuration import PolicyConfiguration
    from penstock.configuration.topic_keys import TopicKey
    from penstock.engine.plans.framework_topics import FrameworkTopics
    from penstock.engine.plans.topic_defaults import TopicDefaults

_ALWAYS: Final = ""
_NEVER: Final = "(?!)"


class LossPatterns:
    """The patterns (`re.search`) that follow from a configuration file's lines about topics."""

    def __init__(
        self,
        configuration: PolicyConfiguration,
        defaults: TopicDefaults,
        frameworks: FrameworkTopics,
        interceptors: Iterable[str],
    ) -> None:
        """Keep the lines.

        Args:
            defaults: The topic level keys of the file.
            frameworks: Those of frameworks, which lose none.
            interceptors: The named policies that are interceptors.
        """
        self._defaults = defaults
        self._validators = configuration.record_validator_classes
        self._topic_keys = configuration.topic_keys
        self._interceptors = frozenset(interceptors)
        self._may_lose = _may_lose(frameworks)
        self._modes = {policy.name: policy.mode for policy in configuration.named_policies}

    def quarantined(self) -> str | None:
        """Return the pattern of topics with a policy whose mode is `quarantine`; None without any.

        A dead letter topic may be among them.
        """
        by_topic = _both(self._has_mode(QUARANTINE), self._has_policy_of_topics_mode())
        condition = _both(self._may_lose, _either([by_topic, self._names(self._has_own_mode)]))
        return None if condition == _NEVER else rf"\A{condition}"

    def intercepted(self, name: str, pattern: re.Pattern[str]) -> str | None:
        """Return the pattern of topics whose records an interceptor may drop; None without any.

        Args:
            name: Its class, or its name.
            pattern: Its own pattern.
        """
        condition = _both(self._may_lose, _opposite(self._has_mode(OBSERVE)))
        if name in self._modes:
            condition = _both(self._names(lambda named: named == name), condition)
        if condition == _NEVER:
            return None
        # Flags are not announced.
        searched = pattern.pattern if pattern.flags == re.UNICODE else ""
        if condition == _ALWAYS:
            return searched
        return rf"\A{condition}(?s:.*?)(?:{searched})" if searched else rf"\A{condition}"

    def _has_policy_of_topics_mode(self) -> str:
        """Return the condition that a topic has a policy without its own mode."""
        if self._validators:
            return _ALWAYS
        switched_on = [row for row in self._topic_keys.values() if row.switches_on]
        return _either(
            [
                _both(
                    self._has(TOPIC_KEYS[RECORDS_POLICY_ENABLED], lambda value: value == "true"),
                    self._has(TOPIC_KEYS[RECORDS_POLICY], bool),
                ),
                self._has(TOPIC_KEYS[VALIDATION_POLICY], lambda value: value is not None),
                *(self._has(row, lambda value: value == "true") for row in switched_on),
                self._names(
                    lambda name: self._modes.get(name) is None and name not in self._interceptors
                ),
            ]
        )

    def _has_own_mode(self, name: str) -> bool:
        return self._modes.get(name) == QUARANTINE and name not in self._interceptors

    def _has_mode(self, mode: str) -> str:
        return self._has(TOPIC_KEYS[MODE], lambda value: value == mode)

    def _names(self, is_wanted: Callable[[str], bool]) -> str:
        """Return the condition that a topic has one of some named policies."""
        return self._has(
            TOPIC_KEYS[POLICIES], lambda value: any(map(is_wanted, items(value or "")))
        )

    def _has(self, row: TopicKey, is_wanted: Callable[[str | None], bool]) -> str:
        """Return the condition that a key has one of some values for a topic."""
        if is_wanted(row.value_in({})):
            return _opposite(self._has_line(row, lambda value: not is_wanted(value)))
        return self._has_line(row, is_wanted)

    def _has_line(self, row: TopicKey, is_wanted: Callable[[str | None], bool]) -> str:
        """Return the condition that the line of a key that holds for a topic has such a value."""
        others: list[str] = []
        conditions: list[str] = []
        for glob, key, value in self._defaults:
            if key != row.name:
                continue
            settings: Mapping[str, str] = {key: value}
            if not is_wanted(row.value_in(settings)):
                others.append(glob)
                continue
            earlier_globs = [other for other in others if _may_share(glob, other)]
            unless = f"(?!{'|'.join(map(_of_glob, earlier_globs))})" if earlier_globs else ""
            conditions.append(f"{unless}{_of_glob(glob)}")
        return f"(?={'|'.join(conditions)})" if conditions else _NEVER


def _of_glob(glob: str) -> str:
    # Python 3.14 ends it in a way that older versions do not read.
    return translate(glob).removesuffix(r"\z").removesuffix(r"\Z") + r"\Z"


def _may_share(glob: str, other: str) -> bool:
    """Return whether a topic's name may match two globs; False only if it is certain."""
    if not is_glob(glob):
        return fnmatchcase(glob, other)
    if not is_glob(other):
        return fnmatchcase(other, glob)
    starts = _start(glob), _start(other)
    return starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])


@cache
def _start(glob: str) -> str:
    return re.split(r"[*?\[]", glob, maxsplit=1)[0]


def _may_lose(frameworks: FrameworkTopics) -> str:
    """Return the condition that a topic is not named as those of frameworks, or is meant."""
    if frameworks.may_lose_records:
        return _ALWAYS
    by_name = f"(?!{'|'.join(map(_of_glob, NAMES_OF_FRAMEWORKS))})"
    named_pattern = "|".join(map(_of_glob, frameworks.named))
    return f"(?:{by_name}|(?={named_pattern}))" if named_pattern else by_name


def _opposite(condition: str) -> str:
    if condition in {_ALWAYS, _NEVER}:
        return _NEVER if condition == _ALWAYS else _ALWAYS
    return f"(?!{condition})"


def _both(first: str, second: str) -> str:
    return _NEVER if _NEVER in {first, second} else first + second


def _either(conditions: Iterable[str]) -> str:
    possible = [condition for condition in conditions if condition != _NEVER]
    if not possible or _ALWAYS in possible:
        return _ALWAYS if possible else _NEVER
    return f"(?:{'|'.join(possible)})"
