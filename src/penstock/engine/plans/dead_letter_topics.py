"""Which topics are dead letter topics of others (`penstock.mode=quarantine`), by the file."""

from __future__ import annotations

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

    def holds(self, topic: str) -> bool:
        """Return whether a topic is the dead letter topic of another topic."""
        if not self.are_possible:
            return False
        default = TOPIC_KEYS[DEAD_LETTER_TOPIC].default or ""
        names = {name.strip() for name in (*self._defaults.values(DEAD_LETTER_TOPIC), default)}
        return any(
            self._is_of_topic_in(name, topic)
            if TOPIC_VARIABLE in name
            else name == topic and self._is_of_others(name) and self._is_used(name)
            for name in names
        )

    def _is_of_topic_in(self, name: str, topic: str) -> bool:
        """Return whether a topic has the name of the topic in it whose dead letters it holds."""
        before, _, after = name.partition(TOPIC_VARIABLE)
        if not (topic.startswith(before) and topic.endswith(after)):
            return False
        source = topic[len(before) : len(topic) - len(after)]
        if not source or source == topic:
            return False
        settings = self._defaults.settings(source)
        return self._quarantines(settings) and dead_letter_topic(source, settings) == topic

    def _is_of_others(self, name: str) -> bool:
        """Return whether a topic is named as the dead letter topic of another topic."""
        return any(
            line.key == DEAD_LETTER_TOPIC and line.value.strip() == name and line.glob != name
            for line in self._defaults
        )

    def _is_used(self, name: str) -> bool:
        """Return whether dead letters of another topic may go to a topic."""
        globs = {line.glob for line in self._defaults if line.key in {MODE, POLICIES}}
        return any(
            glob != name and self._quarantines(self._defaults.settings(glob)) for glob in globs
        )

    def _quarantines(self, settings: Mapping[str, str]) -> bool:
        names = items(value_of(POLICIES, settings) or "")
        by_policy = any(self._policy_modes.get(name) == QUARANTINE for name in names)
        return by_policy or value_of(MODE, settings) == QUARANTINE

    def obstacle(self, topic: str, settings: Mapping[str, str]) -> str:
        """Return why bad records cannot go to a topic's dead letter topic; empty if they can."""
        if not self._quarantines(settings) or self.holds(topic):
            return ""
        name = dead_letter_topic(topic, settings)
        if name == topic:
            return (
                f"{DEAD_LETTER_TOPIC}: the dead letter topic of {topic} would be {topic} itself; "
                "name another one"
            )
        if len(name) > _TOPIC_NAME_MAX:
            return (
                f"{DEAD_LETTER_TOPIC}: {name} has {len(name)} characters, and a topic's name "
                f"{_TOPIC_NAME_MAX} at most"
            )
        return ""
