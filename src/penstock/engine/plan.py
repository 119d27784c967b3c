"""The plan: which policies each topic has.

A `Plan` is made once from the configuration. `Plan.for_topic` merges a topic's own settings, set
through Kafka's admin tools, with the file's defaults.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase, translate
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS
from penstock.configuration.policies import NAMES, unknown_name
from penstock.configuration.topic_keys import (
    ABOUT_BAD_RECORDS,
    DEAD_LETTER_HEADERS,
    DEAD_LETTER_REPLICAS,
    DEAD_LETTER_TOPIC,
    ENFORCE,
    MARK,
    MODE,
    MODES,
    OBSERVE,
    POLICIES,
    QUARANTINE,
    QUARANTINE_MAX_RATIO,
    RECORDS_POLICY,
    RECORDS_POLICY_ENABLED,
    TOPIC_KEYS,
    VALIDATION_POLICY,
    Scope,
    keys_in,
)
from penstock.configuration.values import TOPIC_VARIABLE, items

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.configuration import Configuration, PolicyConfiguration, TopicDefault
    from penstock.configuration.policies import NamedPolicy
    from penstock.configuration.topic_keys import TopicKey

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)
"""Kafka's own: the broker refuses clients' records there itself, no policy runs."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
"""The settings of a topic without topic level keys."""
CREATE_TOPIC: Final = "create.topic.policy.class.name"
ALTER_CONFIG: Final = "alter.config.policy.class.name"
_TOPIC_NAME_MAX: Final = 249
_CACHE_LIMIT: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class TopicPlan:
    """The policies of one topic, in the order in which they judge.

    Attributes:
        topic: The name.
        interceptors: The classes of KIP-905 for the topic, and named interceptors.
        records_policy: The class of KIP-686, or None.
        validators: The classes of KIP-729.
        validation_policy: The class of KIP-940, or None where the topic has not enabled it.
        validation_setting: The topic's `record.validation.policy`; empty where another key has
            switched the validation policy on.
        unusable: Why nothing can judge the topic; empty where all is well.
        settings: The topic level keys that hold for the topic, set on it or by the file, as
            text: whoever acts on a key in the gateway, a worker or Spark finds it here.
        validation_configs: The keys that the validation policy declares, with their defaults.
        named: The named policies, but for interceptors.
        named_interceptors: The named interceptors that the topic has, also those whose pattern
            is not found in its name; `interceptors` has the others.
        mode: What a gateway does with a record that a policy objects to (`penstock.mode`).
            Spark judges all the same.
        policy_modes: The modes of policies that have their own, by class or name; not of
            interceptors, which go by the topic's.
        holds_dead_letters: Whether it is the dead letter topic of another topic. Then policies
            whose mode is `quarantine` do not judge it.
    """

    topic: str
    interceptors: tuple[str, ...] = ()
    records_policy: str | None = None
    validators: tuple[str, ...] = ()
    validation_policy: str | None = None
    validation_setting: str | None = None
    unusable: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    validation_configs: Mapping[str, str] = field(default_factory=dict, hash=False)
    named: tuple[str, ...] = ()
    named_interceptors: tuple[str, ...] = ()
    mode: str = ENFORCE
    policy_modes: Mapping[str, str] = field(default_factory=dict, hash=False)
    holds_dead_letters: bool = False

    def mode_of(self, policy: str) -> str:
        """Return the mode of one policy that is no interceptor."""
        return self.policy_modes.get(policy, self.mode)

    @cached_property
    def judging_modes(self) -> tuple[str, ...]:
        """The modes of the policies that are no interceptors, the strictest first."""
        found = {self.mode_of(one) for one in self._judging}
        return tuple(mode for mode in MODES if mode in found)

    @cached_property
    def marks(self) -> bool:
        """Whether records may be stored with marks."""
        return MARK in self.judging_modes

    @property
    def diverts(self) -> bool:
        """Whether records to which policies object may be stored."""
        return self.marks or self.quarantines

    @cached_property
    def quarantines(self) -> bool:
        """Whether records may go to the dead letter topic."""
        return QUARANTINE in self.judging_modes and not self.holds_dead_letters

    @property
    def dead_letter_topic(self) -> str:
        """The name of the topic for bad records in quarantine."""
        return _dead_letter_topic(self.topic, self.settings)

    @property
    def dead_letter_replicas(self) -> int:
        """The replication factor of that topic, if it is created."""
        return int(_value(DEAD_LETTER_REPLICAS, self.settings) or 0)

    @property
    def dead_letters_have_context(self) -> bool:
        """Whether dead letters say where they come from and why."""
        return _value(DEAD_LETTER_HEADERS, self.settings) == "true"

    @property
    def quarantine_max_ratio(self) -> float:
        """The share of the topic's records that may be bad in quarantine."""
        return float(_value(QUARANTINE_MAX_RATIO, self.settings) or 0)

    @cached_property
    def waited_for(self) -> TopicPlan | None:
        """The policies whose verdicts clients wait for; None where all only observe."""
        left_out = {OBSERVE, QUARANTINE} if self.holds_dead_letters else {OBSERVE}
        return self._in_modes(tuple(mode for mode in MODES if mode not in left_out))

    @cached_property
    def observed(self) -> TopicPlan | None:
        """The policies that only observe; None where there are none."""
        return self._in_modes((OBSERVE,))

    def enforced(self) -> TopicPlan:
        """Return the same policies, all of which refuse what they object to."""
        return replace(self, mode=ENFORCE, policy_modes={})

    def with_mode(self, mode: str) -> TopicPlan:
        """Return the plan with only those policies that have a mode, without interceptors."""
        return self._reduced((mode,), ())

    def _in_modes(self, modes: Sequence[str]) -> TopicPlan | None:
        is_in = self.mode in modes
        if set(self.judging_modes) <= set(modes) and (is_in or not self.interceptors):
            return self if self.policies or (self.unusable and is_in) else None
        reduced = self._reduced(modes, self.interceptors if is_in else ())
        return reduced if reduced.policies else None

    def _reduced(self, modes: Sequence[str], interceptors: tuple[str, ...]) -> TopicPlan:
        kept = {one for one in self._judging if self.mode_of(one) in modes}
        has_validation = self.validation_policy in kept
        return replace(
            self,
            interceptors=interceptors,
            named_interceptors=self.named_interceptors if interceptors else (),
            records_policy=self.records_policy if self.records_policy in kept else None,
            validators=tuple(one for one in self.validators if one in kept),
            validation_policy=self.validation_policy if has_validation else None,
            named=tuple(one for one in self.named if one in kept),
        )

    @property
    def _judging(self) -> tuple[str, ...]:
        return self.policies[len(self.interceptors) :]

    @property
    def needs_topic_id(self) -> bool:
        """Whether a policy may need the topic's id."""
        return self.validation_policy is not None or bool(self.named)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """All classes, and the names of named policies, in order."""
        batch = (self.records_policy,) if self.records_policy else ()
        last = (self.validation_policy,) if self.validation_policy else ()
        return (*self.interceptors, *batch, *self.validators, *last, *self.named)

    @cached_property
    def policy_names(self) -> str:
        """All of them, for messages."""
        return ", ".join(self.policies)

    @cached_property
    def interceptor_names(self) -> str:
        """The interceptors' names, for messages."""
        return ", ".join(self.interceptors)

    @cached_property
    def encoded(self) -> bytes:
        """The plan as JSON for a worker; equal plans have equal bytes."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> TopicPlan:
        """Decode `encoded`."""
        fields = json.loads(data)
        fields["interceptors"] = tuple(fields["interceptors"])
        fields["validators"] = tuple(fields["validators"])
        fields["named"] = tuple(fields["named"])
        fields["named_interceptors"] = tuple(fields["named_interceptors"])
        return cls(**fields)


class Origin(StrEnum):
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
        key: The key.
        value: Its value, as it was set.
        origin: Where it was set.
        glob: The glob of the line in the file; empty without one.
    """

    key: str
    value: str
    origin: Origin
    glob: str = ""


class Plan:
    """The policies of every topic, as a configuration file names them."""

    def __init__(self, configuration: PolicyConfiguration) -> None:
        """Read the policies out of a configuration.

        Raises:
            ConfigurationError: The lines about topics do not fit together.
        """
        self._declared = configuration.topic_keys
        self._properties = configuration.properties
        self._interceptors = configuration.produce_request_interceptors
        self._validators = configuration.record_validator_classes
        self._validation_policy = configuration.record_validation_policy_class_name
        self._named_policies = {one.name: one for one in configuration.named_policies}
        # The longest matching glob wins; of equally long ones the first in the alphabet.
        self._defaults: tuple[TopicDefault, ...] = tuple(
            sorted(
                configuration.topic_defaults,
                key=lambda default: (-len(default.glob), default.glob),
            )
        )
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
        self._named = frozenset(d.value for d in self._defaults if d.key == RECORDS_POLICY)
        self._allowed = configuration.records_policy_class_names_allowed
        self._keys_allowed = configuration.topic_settings_keys_allowed
        self._mode = _value(MODE, configuration.properties)
        self._policy_modes: Mapping[str, str] = {
            one.name: one.mode for one in configuration.named_policies if one.mode is not None
        }
        self._patterns: tuple[tuple[str, re.Pattern[str]], ...] = ()
        self._cached = lru_cache(_CACHE_LIMIT)(self._from_settings)
        for glob in sorted({default.glob for default in self._defaults}):
            if any(one in glob for one in "*?["):
                continue
            why_not = self._not_set_aside(glob, self.settings(glob))
            if why_not:
                raise ConfigurationError(f"{configuration.path}: {why_not}")
        self._may_be_intercepted = lru_cache(_CACHE_LIMIT)(self._intercepts)

    def set_interceptor_patterns(self, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> None:
        """Set the topics of the interceptors, which only their instances know.

        Until then no topic has one.

        Args:
            patterns: Class or name, and topic pattern (`re.search`), of each interceptor, in the
                order of the chain.
        """
        self._patterns = tuple(patterns)
        self._cached.cache_clear()
        self._may_be_intercepted.cache_clear()

    def set_policy_modes(self, modes: Mapping[str, str]) -> None:
        """Set the modes of policies that do not go by their topic's.

        Args:
            modes: By the name of the policy, as `TopicPlan` has it.

        Raises:
            ConfigurationError: One of them is not a mode.
        """
        for name, mode in modes.items():
            if mode not in MODES:
                raise ConfigurationError(
                    f"the mode of {name} must be one of {', '.join(MODES)}; it is {mode!r}"
                )
        self._policy_modes = dict(modes)
        self.__dict__.pop("may_quarantine", None)
        self._cached.cache_clear()
        self._may_be_intercepted.cache_clear()

    @property
    def is_empty(self) -> bool:
        """Whether no topic can have a policy."""
        by_topic = any(default.key not in ABOUT_BAD_RECORDS for default in self._defaults)
        return not (self._interceptors or self._validators or by_topic)

    @property
    def has_interceptors(self) -> bool:
        """Whether some topic may have interceptors."""
        return bool(self._patterns)

    def intercepts(self, topic: str) -> bool:
        """Return whether records of a topic may not be stored though the client gets success.

        It may have interceptors (a named one counts where its pattern is found in the topic's
        name, unless no key of a topic's own may name it, and one that is only observed counts,
        too), or the file puts its bad records in quarantine.
        """
        return bool(self._patterns or self.may_quarantine) and self._may_be_intercepted(topic)

    @property
    def intercepted_topics(self) -> list[str]:
        """Patterns (`re.search`) for all topics for which `intercepts` may be true."""
        found = [one.pattern if one.flags == re.UNICODE else "" for _, one in self._patterns]
        globs = self.globs if self.may_quarantine else ()
        return [*found, *(rf"\A{translate(glob)}" for glob in globs)]

    def _intercepts(self, topic: str) -> bool:
        if topic in INTERNAL_TOPICS:
            return False
        found = [name for name, pattern in self._patterns if pattern.search(topic)]
        may_be_named = found and self.allows_key(POLICIES)
        if may_be_named or any(name not in self._named_policies for name in found):
            return True
        plan = self.for_topic(topic)
        return plan is not None and (bool(plan.interceptors) or plan.quarantines)

    @property
    def globs(self) -> tuple[str, ...]:
        """The topic globs that the file names, and `*` where policies hold for every topic."""
        everywhere: Iterable[str] = ("*",) if self._validators else ()
        return tuple(dict.fromkeys([*(default.glob for default in self._defaults), *everywhere]))

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The classes, and named policies, that some topic may have, by the key that has them."""
        batch = (d.value for d in self._defaults if d.key == RECORDS_POLICY)
        return {
            "produce.request.interceptors": self._interceptors,
            "record.validator.classes": self._validators,
            "record.validation.policy.class.name": (
                (self._validation_policy,) if self._validation_policy else ()
            ),
            RECORDS_POLICY: tuple(dict.fromkeys(batch)),
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
        """Say which name in a topic's `penstock.policies` is of no policy; None where all are."""
        return unknown_name(value, tuple(self._named_policies))

    def for_topic(self, topic: str, own: Mapping[str, str] = NO_SETTINGS) -> TopicPlan | None:
        """Return the topic's plan, or None where nothing judges it.

        Args:
            topic: The name.
            own: The topic level keys that were set on the topic itself. Those that may not be set
                there are ignored.
        """
        return self._cached(topic, frozenset(own.items())) if own else self._cached(topic)

    def _from_settings(
        self, topic: str, own: frozenset[tuple[str, str]] = frozenset()
    ) -> TopicPlan | None:
        return self.from_settings(topic, self.merged(topic, dict(own)))

    def merged(self, topic: str, own: Mapping[str, str]) -> dict[str, str]:
        """Return the topic level keys that hold for a topic.

        Args:
            topic: The name.
            own: Those that were set on the topic itself; what may not be set there is left out.
        """
        allowed = {
            key: value
            for key, value in own.items()
            if self.allows_key(key)
            and (key != DEAD_LETTER_TOPIC or self.allows_dead_letters(value))
        }
        return {**self.settings(topic), **allowed}

    def allows_key(self, name: str) -> bool:
        """Return whether a topic level key may be set on a topic; where not, it has no effect."""
        return any(fnmatchcase(name, pattern) for pattern in self._keys_allowed)

    def allows_class(self, records_policy: str) -> bool:
        """Return whether a topic's own `records.policy.class.name` may name this class."""
        return records_policy in self._named or any(
            records_policy == one or (one.endswith("*") and records_policy.startswith(one[:-1]))
            for one in self._allowed
        )

    def allows_dead_letters(self, name: str) -> bool:
        """Return whether a topic's own setting may name this dead letter topic.

        The gateway writes there with its own principal: whoever may alter a topic's configs may not
        have it write to any topic.
        """
        of_file = (one.value.strip() for one in self._defaults if one.key == DEAD_LETTER_TOPIC)
        return TOPIC_VARIABLE in name or name.strip() in of_file

    def missing_reader(self, key: str) -> str | None:
        """Return the key of the file that has to name what reads a topic level key, and does not.

        None where the topic level key has its reader, or where Penstock itself reads it.
        """
        row = TOPIC_KEYS.get(key) or self._declared.get(key)
        if row is None or row.reader is None or self.names[row.reader]:
            return None
        return row.reader

    @property
    def allows_topic_settings(self) -> bool:
        """Whether there is anything that a topic level key could switch on."""
        readers = {
            key.reader
            for key in keys_in(Scope.TOPIC, self._declared).values()
            if key.reader is not None
        }
        names = self.names
        own = self._named or self._allowed or self._named_policies
        return bool(own or any(names[reader] for reader in readers))

    def settings(self, topic: str) -> dict[str, str]:
        """Return the topic level keys that hold for a topic by the file."""
        settings: dict[str, str] = {}
        for default in self._defaults:
            if fnmatchcase(topic, default.glob):
                settings.setdefault(default.key, default.value)
        return settings

    def settings_and_origins(
        self, topic: str, own: Mapping[str, str] = NO_SETTINGS
    ) -> list[Setting]:
        """Return the topic level keys that hold for a topic, by name, with where they were set."""
        found = {
            key: Setting(key, value, Origin.TOPIC)
            for key, value in own.items()
            if self.allows_key(key)
        }
        for glob, key, value in self._defaults:
            if key not in found and fnmatchcase(topic, glob):
                has_line = f"topics.{glob}.{key}" in self._properties
                origin, shown = (Origin.PATTERN, glob) if has_line else (Origin.FILE, "")
                found[key] = Setting(key, value, origin, shown)
        return [found[key] for key in sorted(found)]

    def observes_topic(self, topic: str) -> bool:
        """Return whether the file has the policies of KIP-108 and KIP-133 only observe a topic.

        What is set on the topic itself does not count: whoever may create or alter the topic
        would switch off the policies that judge just that.
        """
        return _value(MODE, self.settings(topic)) == OBSERVE

    @property
    def observes_others(self) -> bool:
        """Whether the file has the policy of KIP-133 only observe what is not about a topic."""
        return self._mode == OBSERVE

    def from_settings(self, topic: str, settings: Mapping[str, str]) -> TopicPlan | None:
        """Return the plan of a topic that has these topic level keys."""
        if topic in INTERNAL_TOPICS:
            return None
        enabled = _value(RECORDS_POLICY_ENABLED, settings) == "true"
        batch = _value(RECORDS_POLICY, settings) or None if enabled else None
        setting = _value(VALIDATION_POLICY, settings)
        declared = {key: _of_row(row, settings) for key, row in self._declared.items()}
        configs = {key: value for key, value in declared.items() if value is not None}
        if setting is None and any(
            configs.get(key) == "true" for key, row in self._declared.items() if row.switches_on
        ):
            setting = ""
        unusable = self._unusable(batch, settings)
        names = () if unusable else items(_value(POLICIES, settings) or "")
        named_interceptors = tuple(name for name in names if self._is_interceptor(name))
        found = {name: None for name, pattern in self._patterns if pattern.search(topic)}
        plan = TopicPlan(
            topic=topic,
            interceptors=(
                *(name for name in found if name not in self._named_policies),
                *(name for name in named_interceptors if name in found),
            ),
            records_policy=batch,
            validators=self._validators,
            validation_policy=self._validation_policy if setting is not None else None,
            validation_setting=setting,
            unusable=unusable or self._not_set_aside(topic, settings),
            settings=dict(settings),
            validation_configs=configs if setting is not None else {},
            named=tuple(name for name in names if not self._is_interceptor(name)),
            named_interceptors=named_interceptors,
            mode=_value(MODE, settings) or ENFORCE,
            policy_modes=self._policy_modes,
            holds_dead_letters=self._holds_dead_letters(topic),
        )
        return plan if plan.policies or plan.unusable else None

    def _is_interceptor(self, name: str) -> bool:
        return self._named_policies[name].interface == INTERCEPTORS

    @cached_property
    def may_quarantine(self) -> bool:
        """Whether some topic's bad records go to a dead letter topic, by the file."""
        modes = (_value(MODE, {MODE: one.value}) for one in self._defaults if one.key == MODE)
        return QUARANTINE in modes or QUARANTINE in self._policy_modes.values()

    def _sets_aside(self, settings: Mapping[str, str]) -> bool:
        names = items(_value(POLICIES, settings) or "")
        by_policy = any(self._policy_modes.get(name) == QUARANTINE for name in names)
        return by_policy or _value(MODE, settings) == QUARANTINE

    def _holds_dead_letters(self, topic: str) -> bool:
        """Whether a topic is the dead letter topic of another one, by the file."""
        if not self.may_quarantine:
            return False
        of_file = (one.value for one in self._defaults if one.key == DEAD_LETTER_TOPIC)
        for name in {*of_file, TOPIC_KEYS[DEAD_LETTER_TOPIC].default or ""}:
            before, variable, after = name.strip().partition(TOPIC_VARIABLE)
            if not variable:
                if name.strip() == topic and self._is_used(name):
                    return True
                continue
            if not (topic.startswith(before) and topic.endswith(after)):
                continue
            source = topic[len(before) : len(topic) - len(after)]
            settings = self.settings(source)
            if (
                source
                and source != topic
                and self._sets_aside(settings)
                and _dead_letter_topic(source, settings) == topic
            ):
                return True
        return False

    def _is_used(self, name: str) -> bool:
        """Whether dead letters of another topic than this one may go to a topic."""
        globs = {one.glob for one in self._defaults if one.key in {MODE, POLICIES}}
        return any(glob != name.strip() and self._sets_aside(self.settings(glob)) for glob in globs)

    def _not_set_aside(self, topic: str, settings: Mapping[str, str]) -> str:
        """Say why bad records of a topic cannot go to its dead letter topic."""
        if not self._sets_aside(settings) or self._holds_dead_letters(topic):
            return ""
        name = _dead_letter_topic(topic, settings)
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

    def _unusable(self, batch: str | None, settings: Mapping[str, str]) -> str:
        """Say what the topic's own settings ask for that this configuration does not give."""
        if batch is not None and not self.allows_class(batch):
            return (
                f"{RECORDS_POLICY}: {batch} is neither named in the configuration file nor "
                "allowed by records.policy.class.names.allowed"
            )
        unknown = self.unknown_policy(settings.get(POLICIES, ""))
        if unknown is not None:
            return f"{POLICIES}: {unknown}"
        for key in settings:
            if key not in TOPIC_KEYS and key not in self._declared:
                return f"{key} is set, and no policy that is configured declares it"
            reader = self.missing_reader(key)
            if reader is not None:
                return f"{key} is set, and there is no {reader}"
        return ""


def _dead_letter_topic(topic: str, settings: Mapping[str, str]) -> str:
    return (_value(DEAD_LETTER_TOPIC, settings) or "").replace(TOPIC_VARIABLE, topic)


def _value(key: str, settings: Mapping[str, str]) -> str | None:
    """Return a key's value, or its default where it is not set."""
    return _of_row(TOPIC_KEYS[key], settings)


def _of_row(row: TopicKey, settings: Mapping[str, str]) -> str | None:
    value = settings.get(row.name, row.default)
    return None if value is None else row.type.normalize(value)


def allows_topic_settings(configuration: Configuration) -> bool:
    """Whether topics may have settings of their own, set through Kafka's admin tools.

    They may where there is something that a setting could switch on, unless
    `topic.settings.topic` is empty; and where the file names that topic.
    """
    return bool(configuration.topic_settings_topic) and (
        Plan(configuration.policies).allows_topic_settings
        or "topic.settings.topic" in configuration.properties
    )
