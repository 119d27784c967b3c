"""Judges one record policy by policy, and explains each step: its input and its decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.chain import Chain
from penstock.engine.columns import as_proxies, columns_of
from penstock.engine.objections import BatchPolicy, RecordPolicy
from penstock.engine.plans.plan import NO_SETTINGS
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, Outcome, PolicyVerdict, PostponedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.instances import PolicyInstances
    from penstock.engine.plans.plan import Plan
    from penstock.policy import Record, RecordProxy


class LocatedRecord(NamedTuple):
    """A record and where it is."""

    partition: int
    topic_id: UUID
    record: Record
    settings: Mapping[str, str] = NO_SETTINGS
    """The topic level keys that were set on the topic itself."""


@dataclass(frozen=True)
class PolicyStep:
    """The decision of a policy.

    Attributes:
        number: Its place in the chain, from 1.
        kind: `interceptor`, `batch` or `record`.
        name: Its name, or its class.
        decision: In words.
        input: Its input, contents included.
        input_sizes: The same without contents.
    """

    number: int
    kind: str
    name: str
    decision: str
    input: str
    input_sizes: str


@dataclass(frozen=True)
class Explanation:
    """The verdict, and how it came about; policies after the decision are not called."""

    verdict: PolicyVerdict
    steps: tuple[PolicyStep, ...]


def explain(
    plan: Plan, policies: PolicyInstances, topic: str, located_record: LocatedRecord
) -> Explanation:
    """Judge one record, policy by policy.

    Raises:
        ConfigurationError: A policy of the topic cannot be configured.
    """
    chain = Chain(
        plan.for_topic(topic, located_record.settings) or TopicPlan(topic=topic), policies
    )
    steps: list[PolicyStep] = []
    record = located_record.record
    for kind, name, part in _single(chain):
        saw = _seen(part, record)
        try:
            decided = part.judge_each(
                located_record.partition, located_record.topic_id, columns_of([record])
            )
        except PostponedError as error:
            words = _words(error.verdict)
            steps.append(PolicyStep(len(steps) + 1, kind, name, words, _contents(saw), repr(saw)))
            return Explanation(error.verdict, tuple(steps))
        verdict = decided.verdicts[0][1] if decided.verdicts else ACCEPTED
        words = _words(verdict)
        if verdict is ACCEPTED and decided.replaced is not None:
            (key,), (value,) = decided.replaced
            changed_parts = [
                name
                for name, new, old in (("key", key, record.key), ("value", value, record.value))
                if new != old
            ]
            words = f"replaced {' and '.join(changed_parts)}" if changed_parts else "left as it is"
            record = record._replace(key=key, value=value)
        steps.append(PolicyStep(len(steps) + 1, kind, name, words, _contents(saw), repr(saw)))
        if verdict is not ACCEPTED:
            return Explanation(verdict, tuple(steps))
    return Explanation(ACCEPTED, tuple(steps))


def _single(chain: Chain) -> list[tuple[str, str, Chain]]:
    """Take a chain apart: kind, class or name, and a chain of that policy alone.

    They are in the order of `Chain.judge_each`.
    """
    earlier_chains, later_chains = chain.around_interceptors()
    interceptors = [
        ("interceptor", part.name, chain.interceptors_only([part])) for part in chain.interceptors
    ]
    return [
        *_judging(chain, earlier_chains),
        *interceptors,
        *_judging(chain, later_chains),
    ]


def _judging(chain: Chain, tiers: Sequence[Chain]) -> Iterator[tuple[str, str, Chain]]:
    for policy in (policy for tier in tiers for policy in tier.ordered_policies):
        kind = "batch" if isinstance(policy, BatchPolicy) else "record"
        yield kind, policy.name, chain.only(policy)


def _seen(chain: Chain, record: Record) -> Record | RecordProxy:
    """Return a record as a policy sees it."""
    for policy in chain.ordered_policies:
        if isinstance(policy, RecordPolicy) and policy.hints is not None:
            return next(as_proxies(columns_of([record]), policy.hints))
    return record


def _contents(saw: Record | RecordProxy) -> str:
    headers = ", ".join(f"{header.key}={header.value!r}" for header in saw.headers)
    return f"key={saw.key!r} value={saw.value!r} headers=[{headers}]"


def _words(verdict: PolicyVerdict) -> str:
    if verdict.outcome is Outcome.ACCEPTED:
        return verdict.outcome.value
    code = "" if verdict.outcome is Outcome.DROPPED else f" with {verdict.code}"
    message = f": {verdict.message}" if verdict.message else ""
    detail = f" ({verdict.detail})" if verdict.detail else ""
    return f"{verdict.outcome.value}{code}{message}{detail}"
