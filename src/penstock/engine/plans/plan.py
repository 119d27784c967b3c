"""The plan: which policies each topic has.

A `Plan` is made once from the configuration. `Plan.for_topic` merges a topic's own settings, set
through Kafka's admin tools, with the file's defaults.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.configuration.globs import is_glob
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS
from penstock.configuration.policies import NAMES, unknown_name
from penstock.configuration.topic_keys import (
    ABOUT_BAD_RECORDS,
    DEAD_LETTER_TOPIC,
    ENFORCE,
    GROUP_DEAD_LETTERS,
    MODE,
    OBSERVE,
    POLICIES,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    TOPIC_KEYS,
    VALIDATION_POLICY,
    Scope,
    keys_in,
    value_of,
)
from penstock.configuration.values import dotted, items
from penstock.engine.plans.dead_letter_topics import (
    DeadLetterTopics,
    dead_letter_topic,
    obstacle_of_name,
)
from penstock.engine.plans.framework_topics import FrameworkTopics
from penstock.engine.plans.loss_patterns import LossPatterns
from penstock.engine.plans.method_caches import cached_method
from penstock.engine.plans.topic_defaults import TopicDefaults
from penstock.engine.plans.topic_plan import TopicPlan

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    from penstock.configuration import Configuration, PolicyConfiguration
    from penstock.configuration.policies import NamedPolicy
    from penstock.engine.plans.plan_digest import PlanDigests

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Kafka's own: the broker refuses clients' records there itself, no policy runs."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
"""The settings of a topic without topic level keys."""
_CACHE_LIMIT: Final = 10_000


class KeyOrigin(StrEnum):
    """Where a topic level key was set."""

    TOPIC = "topic"
    """On the topic itself, through Kafka's admin tools."""
    PATTERN = "pattern"
    """In the file, for topics whose names match: `topics.<glob>.<key>`."""
    FILE = "file"
    """In the file, for all topics."""


class Setting(NamedTuple):
    """A topic level key that holds for a topic.

    Attributes:
        value: Its value, as it was set.
        origin: Where it was set.
        glob: The glob of the line in the file; empty without one.
    """

    key: str
    value: str
    origin: KeyOrigin
    glob: str = ""


class Plan:
    """The policies of every topic, as a configuration file names them."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        """Read the policies out of a configuration.

        Raises:
            ConfigurationError: The lines about topics do not fit together.
        """
        self._topic_keys = configuration.topic_keys
        self._properties = configuration.properties
        self._interceptors = configuration.produce_request_interceptors
        self._validators = configuration.record_validator_classes
        self._validation_policy = configuration.record_validation_policy_class_name
        self._named_policies = {policy.name: policy for policy in configuration.named_policies}
        self._defaults = TopicDefaults(configuration.topic_defaults)
        for default in self._defaults:
            reader = self.missing_reader(default.key)
            if reader is not None:
                raise ConfigurationError(
                    f"{configuration.path}: topics.{default.glob}.{default.key} needs "
                    f"{reader}, the class that reads it"
                )
            unknown = self.unknown_policy(default.value) if default.key == POLICIES else None
            if unknown is not None:
                raise ConfigurationError(
                    f"{configuration.path}: topics.{default.glob}.{POLICIES}: {unknown}"
                )
        self._named_classes = frozenset(map(dotted, self._defaults.values(RECORDS_POLICY)))
        self._allowed_classes = configuration.records_policy_class_names_allowed
        self._keys_allowed = configuration.topic_settings_keys_allowed
        self._mode = value_of(MODE, configuration.properties)
        self._policy_modes: Mapping[str, str] = {
            policy.name: policy.mode
            for policy in configuration.named_policies
            if policy.mode is not None
        }
        self._dead_letters = DeadLetterTopics(self._defaults, self._policy_modes)
        self._frameworks = FrameworkTopics(configuration, self._defaults)
        self._loss_patterns = LossPatterns(
            configuration,
            self._defaults,
            self._frameworks,
            filter(self._is_interceptor, self._named_policies),
        )
        self._patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
        self._digests: PlanDigests | None = None
        self._plan_cache = cached_method(_CACHE_LIMIT, self._from_settings)
        for topic in sorted(self._defaults.topics):
            settings = self.settings(topic)
            if self._dead_letters.are_for(settings) and not self._dead_letters.holds(topic):
                why_not = self.dead_letter_obstacle(topic, dead_letter_topic(topic, settings))
                if why_not:
                    raise ConfigurationError(f"{configuration.path}: {why_not}")
        self._may_be_intercepted = cached_method(_CACHE_LIMIT, self._intercepts)

    def set_interceptor_patterns(self, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> None:
        """Set the topics of the interceptors, which only their instances know.

        Until then no topic has this class.

        Args:
            patterns: Class or name, and topic pattern (`re.search`), of each interceptor, in the
                order of the chain.
        """
        self._patterns = tuple(patterns)
        self._plan_cache.cache_clear()
        self._may_be_intercepted.cache_clear()

    def set_digests(self, digests: PlanDigests) -> None:
        """Have each plan of a topic or pattern carry its digest, from now on."""
        self._digests = digests
        self._plan_cache.cache_clear()

    @cached_property
    def is_empty(self) -> bool:
        """Whether no topic can have a policy."""
        by_topic = any(default.key not in ABOUT_BAD_RECORDS for default in self._defaults)
        return not (self._interceptors or self._validators or by_topic)

    @property
    def has_interceptors(self) -> bool:
        """Whether some topic may have interceptors."""
        return bool(self._patterns)

    def may_lose_records(self, *, topics_have_settings: bool) -> bool:
        """Return whether a producer may get a success for records that are not in their topic.

        It is known before interceptors have been loaded.

        Args:
            topics_have_settings: Whether topics may have topic level keys.
        """
        return (
            bool(self._interceptors)
            or any(map(self._is_interceptor, self._named_policies))
            or self.may_quarantine
            or (topics_have_settings and self.allows_key(MODE))
        )

    def intercepts(self, topic: str) -> bool:
        """Return whether records of a topic may not be stored though the client gets success.

        It may have interceptors (a named interceptor counts if its pattern is found in the topic's
        name, unless no key on a topic may name it, and an interceptor that is only observed counts,
        too), or the file puts its bad records in quarantine.
        """
        return bool(self._patterns or self.may_quarantine) and self._may_be_intercepted(topic)

    @property
    def intercepted_topics(self) -> list[str]:
        """Patterns (`re.search`) for the topics that may lose records by the file.

        Topics' own settings are not among it.
        """
        patterns = self._loss_patterns
        topic_patterns = [
            *(patterns.intercepted(*each) for each in self._patterns),
            patterns.quarantined(),
        ]
        return [pattern for pattern in topic_patterns if pattern is not None]

    def _intercepts(self, topic: str) -> bool:
        if topic in INTERNAL_TOPICS:
            return False
        interceptor_names = [name for name, pattern in self._patterns if pattern.search(topic)]
        may_be_named = interceptor_names and self.allows_key(POLICIES)
        if may_be_named or any(name not in self._named_policies for name in interceptor_names):
            return True
        plan = self.for_topic(topic)
        return plan is not None and (bool(plan.interceptors) or plan.quarantines)

    @property
    def globs(self) -> tuple[str, ...]:
        """The topic globs of the file, and `*` if policies apply to every topic."""
        everywhere: Iterable[str] = ("*",) if self._validators else ()
        return tuple(dict.fromkeys([*(default.glob for default in self._defaults), *everywhere]))

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The classes, and named policies, that some topic may have, by the key that has them."""
        return {
            "produce.request.interceptors": self._interceptors,
            "record.validator.classes": self._validators,
            "record.validation.policy.class.name": (
                (self._validation_policy,) if self._validation_policy else ()
            ),
            RECORDS_POLICY: tuple(dict.fromkeys(self._defaults.values(RECORDS_POLICY))),
            NAMES: tuple(self._named_policies),
        }

    @property
    def named_policies(self) -> Mapping[str, NamedPolicy]:
        """The policies of the key `policies`, by name."""
        return self._named_policies

    def label(self, name: str) -> str:
        """Return the name of a policy with its class, for people; a class alone as it is."""
        named = self._named_policies.get(name)
        return name if named is None else named.label

    def judges(self, name: str) -> str:
        """Return what a named policy judges, or that it is an interceptor."""
        interface = self._named_policies[name].interface
        return {INTERCEPTORS: "interceptor", RECORDS: "batch"}.get(interface, "record")

    def unknown_policy(self, value: str) -> str | None:
        """Return an error about a name in `penstock.policies` that no policy has, or None."""
        return unknown_name(value, tuple(self._named_policies))

    def for_topic(self, topic: str, own: Mapping[str, str] = NO_SETTINGS) -> TopicPlan | None:
        """Return the topic's plan, or None where nothing judges it.

        Args:
            own: The topic level keys that were set on the topic itself. Those that may not be set
                there are ignored.
        """
        return self._plan_cache(topic, frozenset(own.items())) if own else self._plan_cache(topic)

    def for_pattern(self, glob: str, own: Mapping[str, str] = NO_SETTINGS) -> TopicPlan | None:
        """Return the plan of the topics that a glob matches, and no longer glob of the file.

        Interceptors are left out if their own patterns are not found in the glob's text.

        Args:
            glob: A glob of the file, or the name of a topic that exists.
            own: The topic level keys that were set on the topic itself.
        """
        if not is_glob(glob):
            return self.for_topic(glob, own)
        return self._completed(self.from_settings(glob, self.settings_of_pattern(glob)))

    def _from_settings(
        self, topic: str, own: frozenset[tuple[str, str]] = frozenset()
    ) -> TopicPlan | None:
        plan = self.from_settings(topic, self.merged(topic, dict(own)))
        return self._completed(plan, (key for key, _ in own if self.allows_key(key)))

    def _completed(self, plan: TopicPlan | None, own: Iterable[str] = ()) -> TopicPlan | None:
        """Return a plan with its digest, and with whether a framework may keep its state there."""
        if plan is None:
            return None
        if plan.may_lose_records:
            plan = replace(plan, framework=self._frameworks.of(plan.topic, own))
        return plan if self._digests is None else replace(plan, digest=self._digests.of(plan))

    def merged(self, topic: str, own: Mapping[str, str]) -> dict[str, str]:
        """Return the topic level keys that hold for a topic.

        Args:
            own: Those that were set on the topic itself; what may not be set there is left out.
        """
        return {**self.settings(topic), **self._allowed_of(own)}

    def _allowed_of(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return those of the keys that were set on a topic which may be set there."""
        return {
            key: value
            for key, value in own.items()
            if self.allows_key(key)
            and (key != DEAD_LETTER_TOPIC or self.allows_dead_letters(value))
        }

    def allows_key(self, name: str) -> bool:
        """Return whether a topic level key may be set on a topic; where not, it has no effect."""
        return any(fnmatchcase(name, pattern) for pattern in self._keys_allowed)

    def allows_group_dead_letters(
        self, topic: str, settings: Mapping[str, str] = NO_SETTINGS
    ) -> bool:
        """Return whether brokers may write dead letters of share groups to a topic (KIP-1191).

        No policy judges what a broker writes. So the file must name Kafka's key for a topic that
        policies judge; a pattern in `topic.settings.keys.allowed` is not enough.

        Args:
            settings: The topic level keys that were set on the topic itself.
        """
        if GROUP_DEAD_LETTERS in self._keys_allowed:
            return True
        plan = self.for_topic(topic, settings)
        return plan is None or (plan.waited_for is None and plan.observed is None)

    def allows_class(self, records_policy: str) -> bool:
        """Return whether a topic's own `records.policy.class.name` may name this class."""
        name = dotted(records_policy)
        return name in self._named_classes or any(
            map(partial(_is_of_pattern, name), self._allowed_classes)
        )

    def allows_dead_letters(self, name: str) -> bool:
        """Return whether a topic's own setting may name this dead letter topic.

        The gateway writes there with its own principal: a user who may alter a topic's configs must
        not be able to make it write to any topic. `${topic}` would be no limit, because the user
        may choose the topic's name, too.
        """
        return self._dead_letters.allows(name)

    def dead_letter_obstacle(
        self, source: str, name: str, own: Mapping[str, str] = NO_SETTINGS
    ) -> str:
        """Return why dead letters of a topic may not go to another; empty if they may.

        Args:
            source: The topic of the bad records.
            name: Its dead letter topic.
            own: The topic level keys that were set on the dead letter topic itself.
        """
        why_not = obstacle_of_name(source, name)
        keys = () if why_not else self._keys_of_own_policies(name, own)
        if keys:
            return (
                f"{DEAD_LETTER_TOPIC}: {name}, the dead letter topic of {source}, has its "
                f"own policies ({', '.join(keys)}); name another topic"
            )
        return why_not

    def _keys_of_own_policies(self, topic: str, own: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys of a topic's own that give it policies.

        They were set on it, or stand in the file for this topic alone. Policies do not count that
        it has by a wildcard, or by `record.validator.classes`.
        """
        allowed = self._allowed_of(own)
        keys = {*allowed, *self._defaults.keys_of(topic)} - ABOUT_BAD_RECORDS
        if not keys:
            return ()
        topic_plan = self.from_settings(topic, {**self.settings(topic), **allowed})
        if topic_plan is None:
            return ()
        has_policy = {
            RECORDS_POLICY: topic_plan.records_policy is not None,
            RECORDS_POLICY_ENABLED: topic_plan.records_policy is not None,
            POLICIES: bool(topic_plan.named or topic_plan.named_interceptors),
        }
        # Where its policies cannot be used, nobody knows what they would be.
        of_validation = topic_plan.validation_policy is not None
        return tuple(
            key for key in sorted(keys) if topic_plan.unusable or has_policy.get(key, of_validation)
        )

    def must_not_exist(self, source: str, name: str) -> list[str]:
        """Return the topics of which none may exist if a gateway creates a dead letter topic."""
        return self._dead_letters.must_not_exist(source, name)

    def missing_reader(self, key: str) -> str | None:
        """Return the key of the file that must name the reader of a topic level key, and does not.

        None if the topic level key has its reader, or if Penstock reads it.
        """
        row = TOPIC_KEYS.get(key) or self._topic_keys.get(key)
        if row is None or row.reader is None or self.names[row.reader]:
            return None
        return row.reader

    @property
    def allows_topic_settings(self) -> bool:
        """Whether there is anything that a topic level key could switch on."""
        readers = {
            key.reader
            for key in keys_in(Scope.TOPIC, self._topic_keys).values()
            if key.reader is not None
        }
        names = self.names
        own = self._named_classes or self._allowed_classes or self._named_policies
        return bool(own or any(names[reader] for reader in readers))

    def settings(self, topic: str) -> dict[str, str]:
        """Return the topic level keys that hold for a topic by the file."""
        return self._defaults.settings(topic)

    def settings_of_pattern(self, glob: str) -> dict[str, str]:
        """Return the topic level keys that hold for the topics of a glob; see `for_pattern`."""
        return self._defaults.settings_of_pattern(glob)

    def settings_and_origins(
        self, topic: str, own: Mapping[str, str] = NO_SETTINGS
    ) -> list[Setting]:
        """Return the topic level keys that hold for a topic, by name, with where they were set.

        Args:
            topic: The name of a topic that exists, or a glob of the file.
            own: The topic level keys that were set on the topic itself.
        """
        settings_by_key = {
            key: Setting(key, value, KeyOrigin.TOPIC)
            for key, value in self._allowed_of(own).items()
        }
        for glob, key, value in self._defaults.lines_of_pattern(topic).values():
            if key not in settings_by_key:
                has_line = f"topics.{glob}.{key}" in self._properties
                origin, shown = (KeyOrigin.PATTERN, glob) if has_line else (KeyOrigin.FILE, "")
                settings_by_key[key] = Setting(key, value, origin, shown)
        return [settings_by_key[key] for key in sorted(settings_by_key)]

    def observes_topic(self, topic: str) -> bool:
        """Return whether the file has the policies of KIP-108 and KIP-133 only observe a topic.

        Values on the topic do not count: otherwise a user who may create or alter the topic
        could disable the policies that judge these requests.
        """
        return value_of(MODE, self.settings(topic)) == OBSERVE

    @property
    def observes_others(self) -> bool:
        """Whether the policy of KIP-133 only observes requests that are not about a topic."""
        return self._mode == OBSERVE

    def from_settings(self, topic: str, settings: Mapping[str, str]) -> TopicPlan | None:
        """Return the plan of a topic that has these topic level keys."""
        if topic in INTERNAL_TOPICS:
            return None
        enabled = value_of(RECORDS_POLICY_ENABLED, settings) == "true"
        batch = value_of(RECORDS_POLICY, settings) or None if enabled else None
        setting = value_of(VALIDATION_POLICY, settings)
        declared = {key: row.value_in(settings) for key, row in self._topic_keys.items()}
        configs = {key: value for key, value in declared.items() if value is not None}
        if setting is None and any(
            configs.get(key) == "true" for key, row in self._topic_keys.items() if row.switches_on
        ):
            setting = ""
        unusable = self._unusable(batch, settings)
        names = () if unusable else items(value_of(POLICIES, settings) or "")
        named_interceptors = tuple(name for name in names if self._is_interceptor(name))
        matching_names = {name: None for name, pattern in self._patterns if pattern.search(topic)}
        plan = TopicPlan(
            topic=topic,
            interceptors=(
                *(name for name in matching_names if name not in self._named_policies),
                *(name for name in named_interceptors if name in matching_names),
            ),
            records_policy=batch,
            validators=self._validators,
            validation_policy=self._validation_policy if setting is not None else None,
            validation_setting=setting,
            unusable=unusable,
            settings=dict(settings),
            validation_configs=configs if setting is not None else {},
            named=tuple(name for name in names if not self._is_interceptor(name)),
            named_interceptors=named_interceptors,
            mode=value_of(MODE, settings) or ENFORCE,
            policy_modes=self._policy_modes,
            holds_dead_letters=self._dead_letters.holds(topic),
        )
        return plan if plan.policies or plan.unusable else None

    def _is_interceptor(self, name: str) -> bool:
        return self._named_policies[name].interface == INTERCEPTORS

    @property
    def keeps_topics_of_frameworks(self) -> bool:
        """Whether a batch is refused of which a topic of a framework would lose records."""
        return not self._frameworks.may_lose_records

    @property
    def may_quarantine(self) -> bool:
        """Whether some topic's bad records go to a dead letter topic, by the file."""
        return self._dead_letters.are_possible

    def _unusable(self, batch: str | None, settings: Mapping[str, str]) -> str:
        """Return which of the topic's settings this configuration does not support."""
        if batch is not None and not self.allows_class(batch):
            return (
                f"{RECORDS_POLICY}: {batch} is neither named in the configuration file nor "
                "allowed by records.policy.class.names.allowed"
            )
        unknown = self.unknown_policy(settings.get(POLICIES, ""))
        if unknown is not None:
            return f"{POLICIES}: {unknown}"
        for key in settings:
            if key not in TOPIC_KEYS and key not in self._topic_keys:
                return f"{key} is set, and no policy that is configured declares it"
            reader = self.missing_reader(key)
            if reader is not None:
                return f"{key} is set, and there is no {reader}"
        return ""


def _is_of_pattern(name: str, pattern: str) -> bool:
    """Return whether `records.policy.class.names.allowed` has a class by one of its patterns.

    Args:
        name: The class, as `values.dotted` returns it.
        pattern: A class, `package.*`, or `package.module:*` for the classes of that module alone.
    """
    if pattern.endswith(":*"):
        return name.rpartition(".")[0] == pattern.removesuffix(":*")
    if pattern.endswith(".*"):
        return name.startswith(pattern.removesuffix("*"))
    return name == dotted(pattern)


def allows_topic_settings(configuration: Configuration) -> bool:
    """Whether topics may have settings, set through Kafka's admin tools.

    They may where there is something that a setting could switch on, unless
    `topic.settings.topic` is empty; and where the file names that topic.
    """
    return bool(configuration.topic_settings_topic) and (
        Plan(configuration.policies).allows_topic_settings
        or "topic.settings.topic" in configuration.properties
    )
