"""Topics in which frameworks keep their own state: no record of them may be lost.

Kafka Streams restores its state from changelogs, Connect its connectors, MirrorMaker its positions.
If a record of these were set aside or dropped, the framework would continue without it. A pattern
with a wildcard reaches these topics although nobody means them: then the record is refused. Where
the file, or a key on the topic itself, names the topic, it is meant.

A client chooses names. So the rule only makes gateways stricter: everything is judged.
"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import (
    MODE,
    POLICIES,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    VALIDATION_POLICY,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.plans.topic_defaults import TopicDefaults

NAMES_OF_FRAMEWORKS: Final = ("*-changelog", "*-repartition", "connect-*", "mm2-*", "*.internal")
"""How Kafka Streams, Connect and MirrorMaker name their own topics."""
ALLOWED_BY: Final = "penstock.quarantine.internal.topics"
"""The key with which records of these topics may be lost."""
_OF_POLICIES: Final = frozenset(
    {MODE, POLICIES, RECORDS_POLICY, RECORDS_POLICY_ENABLED, VALIDATION_POLICY}
)
"""The keys with which a topic itself has policies, or a mode."""


class FrameworkTopic(StrEnum):
    """Whether a framework may keep its state in a topic, so that no record may be lost."""

    NO = "no"
    BY_NAME = "by name"
    IF_COMPACTED = "if compacted"


def is_named_by_framework(topic: str) -> bool:
    """Return whether a topic is named as frameworks name their own."""
    return any(fnmatchcase(topic, name) for name in NAMES_OF_FRAMEWORKS)


class FrameworkTopics:
    """The topics of frameworks, by the lines of a configuration file."""

    def __init__(self, configuration: PolicyConfiguration, defaults: TopicDefaults) -> None:
        """Keep which topics the file names.

        Args:
            defaults: The topic level keys of the file.
        """
        self.may_lose_records = configuration.penstock_quarantine_internal_topics
        self._named_topics = frozenset(defaults.topics)
        switched_on = (row.name for row in configuration.topic_keys.values() if row.switches_on)
        self._of_policies = _OF_POLICIES.union(switched_on)

    @property
    def named(self) -> list[str]:
        """The topics that are named as frameworks name theirs, and that the file names itself."""
        return sorted(filter(is_named_by_framework, self._named_topics))

    def of(self, topic: str, own: Iterable[str]) -> FrameworkTopic:
        """Return whether no record of a topic may be lost.

        Args:
            own: The topic level keys that were set on the topic itself, and may be.
        """
        is_meant = topic in self._named_topics or not self._of_policies.isdisjoint(own)
        if self.may_lose_records or is_meant:
            return FrameworkTopic.NO
        by_name = is_named_by_framework(topic)
        return FrameworkTopic.BY_NAME if by_name else FrameworkTopic.IF_COMPACTED
