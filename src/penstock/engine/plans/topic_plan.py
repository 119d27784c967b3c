"""The policies of one topic, in the order in which they judge; `Plan` makes them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.configuration.topic_keys import (
    DEAD_LETTER_HEADERS,
    DEAD_LETTER_REPLICAS,
    DEAD_LETTER_TOPIC,
    ENFORCE,
    MARK,
    MODES,
    OBSERVE,
    QUARANTINE,
    QUARANTINE_MAX_RATIO,
    REASONS_OF_RECORDS,
    REJECTION_REASONS,
    value_of,
)
from penstock.engine.plans.dead_letter_topics import dead_letter_topic
from penstock.engine.plans.framework_topics import FrameworkTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOT_ABOUT_LOSSES: Final = frozenset(
    {DEAD_LETTER_TOPIC, DEAD_LETTER_REPLICAS, DEAD_LETTER_HEADERS, REJECTION_REASONS}
)
"""Keys about bad records that do not affect which records become dead letters."""


@dataclass(frozen=True, kw_only=True)
class TopicPlan:
    """The policies of one topic, in the order in which they judge.

    Attributes:
        interceptors: The classes of KIP-905 for the topic, and named interceptors.
        records_policy: The class of KIP-686, or None.
        validators: The classes of KIP-729.
        validation_policy: The class of KIP-940, or None where the topic has not enabled it.
        validation_setting: The topic's `record.validation.policy`; empty where another key has
            switched the validation policy on.
        unusable: Why nothing can judge the topic; empty where all is well.
        settings: The topic level keys of the topic, set on it or by the file, as
            text, for the code in the gateway, a worker or Spark that uses them.
        validation_configs: The keys that the validation policy declares, with their defaults.
        named: The named policies, but for interceptors.
        named_interceptors: The named interceptors that the topic has, also those whose pattern
            is not found in its name; `interceptors` has the others.
        mode: What a gateway does with a record that a policy objects to (`penstock.mode`).
            Spark ignores it.
        policy_modes: The modes of policies that have their own, by class or name; not of
            interceptors, which go by the topic's.
        holds_dead_letters: Whether it is the dead letter topic of another topic. Then policies
            whose mode is `quarantine` do not judge it.
        framework: Whether a framework may keep its state there, so that a gateway refuses a batch
            of which it would lose records.
        digest: The identity of the whole plan (`plan_digest`), also of a part of it; empty where
            it is not needed.
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
    framework: str = FrameworkTopic.NO
    digest: str = ""

    def mode_of(self, policy: str) -> str:
        """Return the mode of a policy other than an interceptor."""
        return self.policy_modes.get(policy, self.mode)

    @cached_property
    def judging_modes(self) -> tuple[str, ...]:
        """The modes of the policies except interceptors, the strictest first."""
        used_modes = {self.mode_of(policy) for policy in self._judging}
        return tuple(mode for mode in MODES if mode in used_modes)

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
    def may_lose_records(self) -> bool:
        """Whether records may not be stored while their client gets a success."""
        is_kept = self.framework == FrameworkTopic.BY_NAME
        return (bool(self.interceptors) or self.quarantines) and not is_kept

    @cached_property
    def losses(self) -> TopicPlan | None:
        """The policies that decide which records are dropped while their client gets a success.

        Two plans that lose the same records, according to their keys, have equal values; None if
        none are lost.
        """
        plan = self.waited_for
        if plan is None or not plan.may_lose_records:
            return None
        if not plan.quarantines:
            return TopicPlan(topic=self.topic, interceptors=plan.interceptors)
        settings = {
            key: value for key, value in plan.settings.items() if key not in _NOT_ABOUT_LOSSES
        }
        return replace(plan, settings=settings, unusable="", digest="")

    @cached_property
    def dead_letter_topic(self) -> str:
        """The name of the topic for bad records in quarantine."""
        return dead_letter_topic(self.topic, self.settings)

    @cached_property
    def dead_letter_replicas(self) -> int:
        """The replication factor of that topic, if it is created."""
        return int(value_of(DEAD_LETTER_REPLICAS, self.settings) or 0)

    @cached_property
    def dead_letters_have_context(self) -> bool:
        """Whether dead letters say where they come from and why."""
        return value_of(DEAD_LETTER_HEADERS, self.settings) == "true"

    @cached_property
    def quarantine_max_ratio(self) -> float:
        """The share of the topic's records that may be bad in quarantine."""
        return float(value_of(QUARANTINE_MAX_RATIO, self.settings) or 0)

    @cached_property
    def limits_bad_share(self) -> bool:
        """Whether batches in quarantine are refused where too many records are bad."""
        return self.quarantines and self.quarantine_max_ratio < 1

    @cached_property
    def names_bad_records(self) -> bool:
        """Whether the response about a refused batch has the reason of each bad record."""
        return value_of(REJECTION_REASONS, self.settings) == REASONS_OF_RECORDS

    @cached_property
    def waited_for(self) -> TopicPlan | None:
        """The policies whose verdicts clients wait for; None where all only observe."""
        left_out = {OBSERVE, QUARANTINE} if self.holds_dead_letters else {OBSERVE}
        return self._in_modes(tuple(mode for mode in MODES if mode not in left_out))

    @cached_property
    def observed(self) -> TopicPlan | None:
        """The policies that only observe, or None."""
        return self._in_modes((OBSERVE,))

    def enforced(self) -> TopicPlan:
        """Return the same policies, all in mode `enforce`."""
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
        kept_policies = {policy for policy in self._judging if self.mode_of(policy) in modes}
        has_validation = self.validation_policy in kept_policies
        return replace(
            self,
            interceptors=interceptors,
            named_interceptors=self.named_interceptors if interceptors else (),
            records_policy=self.records_policy if self.records_policy in kept_policies else None,
            validators=tuple(name for name in self.validators if name in kept_policies),
            validation_policy=self.validation_policy if has_validation else None,
            named=tuple(name for name in self.named if name in kept_policies),
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
