"""Which topics are dead letter topics of others (`penstock.mode=quarantine`), by the file.

The gateway writes dead letters with its own principal. So their topic has a name that the file or
the default gives, with a source's name in it, and never that of a topic which is protected.
"""

from __future__ import annotations

import re
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import (
    DEAD_LETTER_TOPIC,
    MODE,
    POLICIES,
    QUARANTINE,
    TOPIC_KEYS,
    value_of,
)
from penstock.configuration.values import TOPIC_VARIABLE, items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.plans.topic_defaults import TopicDefaults

_TOPIC_NAME_MAX: Final = 249
_INTERNAL: Final = "__"
"""Names of internal topics begin with it: those of Kafka, and by default those of gateways."""


def dead_letter_topic(topic: str, settings: Mapping[str, str]) -> str:
    """Return the name of a topic's dead letter topic."""
    return (value_of(DEAD_LETTER_TOPIC, settings) or "").replace(TOPIC_VARIABLE, topic)


class DeadLetterTopics:
    """The dead letter topics that a configuration file implies."""

    def __init__(self, defaults: TopicDefaults, policy_modes: Mapping[str, str]) -> None:
        """Find out whether there may be any.

        Args:
            defaults: The topic level keys of the file.
            policy_modes: The modes of named policies that have their own mode, by name.
        """
        self._defaults = defaults
        self._policy_modes = policy_modes
        modes = [value_of(MODE, {MODE: mode}) for mode in defaults.values(MODE)]
        self.are_possible: Final = QUARANTINE in (*modes, *policy_modes.values())
        """Whether some topic's bad records go to a dead letter topic."""
        default = TOPIC_KEYS[DEAD_LETTER_TOPIC].default or ""
        named = map(str.strip, defaults.values(DEAD_LETTER_TOPIC))
        self._names: Final = dict.fromkeys((*named, default))
        """The names in the file, and the default."""

    def allows(self, name: str) -> bool:
        """Return whether a topic's own `errors.deadletterqueue.topic.name` may be this."""
        return name.strip() in self._names

    def must_not_exist(self, source: str, name: str) -> list[str]:
        """Return the topics of which none may exist if a gateway creates a dead letter topic.

        So clients cannot have it create many: a topic that holds dead letters gets none,
        and a topic with one gets a second only if the file has its name for this topic.

        Args:
            source: The topic of the bad records.
            name: Its dead letter topic.
        """
        of_sources = [each for each in self._names if TOPIC_VARIABLE in each]
        sources = filter(None, (_source_in(each, source) for each in of_sources))
        others: list[str] = []
        if name != dead_letter_topic(source, self._defaults.settings(source)):
            others = [each.replace(TOPIC_VARIABLE, source) for each in of_sources]
        is_shared = name in self._names
        return [] if is_shared else [each for each in (*sources, *others) if each != name]

    def holds(self, topic: str) -> bool:
        """Return whether a topic is the dead letter topic of another topic."""
        if not self.are_possible:
            return False
        return any(
            self._is_of_topic_in(name, topic)
            if TOPIC_VARIABLE in name
            else name == topic and self._is_of_others(name) and self._is_used(name)
            for name in self._names
        )

    def _is_of_topic_in(self, name: str, topic: str) -> bool:
        """Return whether a topic has the name of the topic in it whose dead letters it holds."""
        source = _source_in(name, topic)
        if source is None:
            return False
        settings = self._defaults.settings(source)
        return self.are_for(settings) and dead_letter_topic(source, settings) == topic

    def _is_of_others(self, name: str) -> bool:
        """Return whether a topic is named as the dead letter topic of another topic."""
        return any(
            line.key == DEAD_LETTER_TOPIC and line.value.strip() == name and line.glob != name
            for line in self._defaults
        )

    def _is_used(self, name: str) -> bool:
        """Return whether dead letters of another topic may go to a topic."""
        globs = {line.glob for line in self._defaults if line.key in {MODE, POLICIES}}
        settings = self._defaults.settings_of_pattern
        return any(glob != name and self.are_for(settings(glob)) for glob in globs)

    def are_for(self, settings: Mapping[str, str]) -> bool:
        """Return whether bad records of a topic with these keys become dead letters."""
        names = items(value_of(POLICIES, settings) or "")
        by_policy = any(self._policy_modes.get(name) == QUARANTINE for name in names)
        return by_policy or value_of(MODE, settings) == QUARANTINE


def obstacle_of_name(source: str, name: str) -> str:
    """Return why no dead letters of a topic may go to a topic of this name; empty if they may."""
    if name == source:
        return (
            f"{DEAD_LETTER_TOPIC}: the dead letter topic of {source} would be {source} itself; "
            "name another topic"
        )
    if name.startswith(_INTERNAL):
        return (
            f"{DEAD_LETTER_TOPIC}: the dead letter topic of {source} would be {name}, and names "
            f"that begin with {_INTERNAL} are those of internal topics; name another topic"
        )
    if len(name) > _TOPIC_NAME_MAX:
        return (
            f"{DEAD_LETTER_TOPIC}: {name} has {len(name)} characters, and a topic's name "
            f"{_TOPIC_NAME_MAX} at most"
        )
    return ""


def _source_in(name: str, topic: str) -> str | None:
    """Return the topic whose dead letters would go to a topic by a name with `${topic}`."""
    parts = map(re.escape, name.split(TOPIC_VARIABLE))
    groups = chain(["(?P<source>.+)"], repeat("(?P=source)"))
    pattern = next(parts) + "".join(
        f"{group}{part}" for group, part in zip(groups, parts, strict=False)
    )
    match = re.fullmatch(pattern, topic)
    return match["source"] if match is not None else None
