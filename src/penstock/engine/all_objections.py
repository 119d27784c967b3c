"""Every objection to each record: of all policies and rules, where a chain names only the first.

Each policy of a chain judges all records, whatever the others say about them. A policy that
consists of rules (a method `objections_of_rules`) then says about the refused records which of its
rules object; or, if its verdicts are these (`judges_by_rules`), about all records, and once. The
verdict on a record is that of `Chain.judge_each`, except that policies whose mode is `mark` or
`observe` only warn: a record to which no other policy objects is accepted.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.configuration.topic_keys import ENFORCE, MARK, OBSERVE
from penstock.engine.chain import destination_of, remaining_positions
from penstock.engine.columns import Columns
from penstock.engine.interceptors.policy_batch import PolicyBatch
from penstock.engine.objections import RecordPolicy, Stages
from penstock.engine.verdict import Outcome, bounded, of_stored, refused_record
from penstock.kafka.error_codes import INVALID_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.chain import Chain
    from penstock.engine.columns import RecordColumns
    from penstock.engine.objections import Destination, Policy
    from penstock.engine.verdict import PolicyVerdict

WARNING_MODES: Final = frozenset({MARK, OBSERVE})
"""The modes of policies whose objections leave the outcome of a record as it is."""
RULES_MOST: Final = 200
"""How many objections of one policy to a record are named."""


class NamedObjection(NamedTuple):
    """An objection to a record.

    Attributes:
        policy: The policy that objects.
        rule: Its rule; None for a policy without rules, or an objection of none of them.
        code: Kafka's error code.
        message: The policy's text.
        mode: The policy's mode (`penstock.mode`).
        fields: The fields of the value, at its top level, that the rule is about, where known.
    """

    policy: str
    rule: str | None
    code: int
    message: str | None
    mode: str = ENFORCE
    fields: tuple[str, ...] = ()

    @property
    def only_warns(self) -> bool:
        """Whether the record is accepted even so."""
        return self.mode in WARNING_MODES


class AllVerdicts(NamedTuple):
    """The verdicts on some records, and all objections to them.

    Attributes:
        verdicts: Position and verdict of the records that are not accepted, ascending.
        objections: By position, those of the strictest policies first.
    """

    verdicts: Sequence[tuple[int, PolicyVerdict]]
    objections: Mapping[int, Sequence[NamedObjection]]


def same_for_all(count: int, verdict: PolicyVerdict) -> AllVerdicts:
    """Return one verdict for each of some records, which no policy could judge."""
    objection = NamedObjection(verdict.policy, None, verdict.code, verdict.message)
    positions = range(count)
    return AllVerdicts([(n, verdict) for n in positions], dict.fromkeys(positions, (objection,)))


def moved(verdicts: AllVerdicts, positions: Sequence[int]) -> AllVerdicts:
    """Return the verdicts on some records of a batch, as those of the batch.

    Args:
        positions: Of these records in the batch, ascending.
    """
    return AllVerdicts(
        [(positions[index], verdict) for index, verdict in verdicts.verdicts],
        {positions[index]: named for index, named in verdicts.objections.items()},
    )


def joined(parts: Iterable[tuple[int, AllVerdicts]]) -> AllVerdicts:
    """Return the verdicts on records that were judged in parts.

    Args:
        parts: The position of the first record of each part, ascending, and the verdicts on it.
    """
    verdicts: list[tuple[int, PolicyVerdict]] = []
    objections: dict[int, Sequence[NamedObjection]] = {}
    for start, part in parts:
        verdicts += ((start + index, verdict) for index, verdict in part.verdicts)
        objections |= {start + index: named for index, named in part.objections.items()}
    return AllVerdicts(verdicts, objections)


class PoliciesApart:
    """The policies of a chain, each by itself."""

    def __init__(self, chain: Chain) -> None:
        earlier_chains, later_chains = chain.around_interceptors()
        tiers = [
            [_PolicyApart(mode, tier.only(policy), policy) for policy in tier.ordered_policies]
            for mode, tier in chain.tiers
        ]
        self._earlier = tiers[: len(earlier_chains)]
        self._later = tiers[len(tiers) - len(later_chains) :]
        self._interceptors = (
            chain.interceptors_only(chain.interceptors) if chain.interceptors else None
        )

    def judge_each(
        self,
        partition: int,
        topic_id: UUID,
        records: RecordColumns,
        *,
        records_policy_batch: int = 1,
    ) -> AllVerdicts:
        """Judge each record by all policies; see `Chain.judge_each`.

        A record that is refused before the interceptors run, or that they drop or fail on, is not
        judged by the policies behind them.

        Raises:
            PostponedError: A policy cannot decide now; no record has a verdict.
        """
        findings = _Findings()
        size = records_policy_batch
        positions: Sequence[int] = range(records.count)
        for policy in (policy for tier in self._earlier for policy in tier):
            findings.add(policy, positions, policy.objections(partition, topic_id, records, size))
        if self._interceptors is not None:
            if findings.verdicts:
                positions = remaining_positions(records.count, list(findings.verdicts.items()))
                records = records.pick(positions)
            decided = self._interceptors.judge_each(partition, topic_id, records)
            findings.add_undecided(positions, decided.verdicts)
            if decided.replaced is not None:
                records = Columns(
                    records.count, records.timestamps, *decided.replaced, records.headers
                )
            if decided.verdicts:
                remaining = remaining_positions(records.count, decided.verdicts)
                records = records.pick(remaining)
                positions = [positions[index] for index in remaining]
        if records.count:
            for policy in (policy for tier in self._later for policy in tier):
                findings.add(
                    policy, positions, policy.objections(partition, topic_id, records, size)
                )
        return AllVerdicts(sorted(findings.verdicts.items()), findings.objections)


class _Findings:
    """The verdicts and objections so far."""

    def __init__(self) -> None:
        self.verdicts: dict[int, PolicyVerdict] = {}
        self.objections: dict[int, list[NamedObjection]] = {}

    def add(
        self,
        policy: _PolicyApart,
        positions: Sequence[int],
        objections: Iterable[tuple[int, PolicyVerdict, Sequence[NamedObjection]]],
    ) -> None:
        for index, verdict, named in objections:
            position = positions[index]
            self.objections.setdefault(position, []).extend(named)
            if policy.mode not in WARNING_MODES:
                self.verdicts.setdefault(position, verdict)

    def add_undecided(
        self, positions: Sequence[int], verdicts: Iterable[tuple[int, PolicyVerdict]]
    ) -> None:
        """Add the verdicts of interceptors: a dropped record is no objection."""
        for index, verdict in verdicts:
            self.verdicts[positions[index]] = verdict
            if verdict.outcome is not Outcome.DROPPED:
                objection = NamedObjection(verdict.policy, None, verdict.code, verdict.message)
                self.objections.setdefault(positions[index], []).append(objection)


class _PolicyApart:
    """One policy, and its mode."""

    def __init__(self, mode: str, chain: Chain, policy: Policy) -> None:
        self.mode = mode
        self._chain = chain
        self._policy = policy
        self._by_rules = (
            _ByRules(policy)
            if isinstance(policy, RecordPolicy) and policy.judges_by_rules
            else None
        )

    def objections(
        self, partition: int, topic_id: UUID, records: RecordColumns, records_policy_batch: int
    ) -> Iterable[tuple[int, PolicyVerdict, Sequence[NamedObjection]]]:
        """Return the position, the verdict and the objections of records that it objects to."""
        of_rules: Mapping[int, Sequence[NamedObjection]] | None
        destination = destination_of(self._chain.plan, partition, topic_id)
        if self._by_rules is not None:
            verdicts, objections = self._by_rules.judge_each(destination, records)
            of_rules = None if objections is None else self._named(objections)
        else:
            verdicts = self._chain.judge_each(
                partition, topic_id, records, records_policy_batch=records_policy_batch
            ).verdicts
            of_rules = None
        if of_rules is None:
            of_rules = self._of_refused(destination, records, verdicts)
        for index, verdict in verdicts:
            named = _with_first(of_rules.get(index, ()), self._first(verdict))
            yield index, verdict, named[:RULES_MOST]

    def _first(self, verdict: PolicyVerdict) -> NamedObjection:
        return NamedObjection(self._policy.name, None, verdict.code, verdict.message, self.mode)

    def _of_refused(
        self,
        destination: Destination,
        records: RecordColumns,
        verdicts: Iterable[tuple[int, PolicyVerdict]],
    ) -> Mapping[int, Sequence[NamedObjection]]:
        """Return the objections of each rule to records that the policy refuses."""
        policy = self._policy
        refused = [n for n, verdict in verdicts if verdict.outcome is Outcome.REFUSED]
        if not (refused and isinstance(policy, RecordPolicy) and policy.objections_of_rules):
            return {}
        some = records.pick(refused)
        batch = PolicyBatch(some, *(() if policy.hints is None else (policy.hints,)))
        # The verdicts stand; a mistake here only leaves them without the names of rules.
        with suppress(Exception):
            objections = policy.objections_of_rules(policy.topic(destination), batch)
            named = self._named(_by_position(objections))
            return {refused[position]: each for position, each in named.items()}
        return {}

    def _named(
        self, objections: Mapping[int, Sequence[Any]]
    ) -> Mapping[int, Sequence[NamedObjection]]:
        @cache  # rules object to many records with the same text
        def named(rule: str | None, message: str, fields: tuple[str, ...]) -> NamedObjection:
            text = bounded(message)
            return NamedObjection(self._policy.name, rule, INVALID_RECORD, text, self.mode, fields)

        return {
            position: [named(o.rule, o.message, tuple(o.fields)) for o in each]
            for position, each in objections.items()
        }


class _ByRules:
    """A policy that judges records once: by all of its rules."""

    def __init__(self, policy: RecordPolicy) -> None:
        self._policy = policy
        self._stages = Stages([policy._replace(validate=None, validate_batch=self._validate)])
        self._answers: list[dict[int, list[Any]]] = []

    def judge_each(
        self, destination: Destination, records: RecordColumns
    ) -> tuple[Sequence[tuple[int, PolicyVerdict]], dict[int, list[Any]] | None]:
        """Judge records; see `Chain.judge_each`.

        Returns:
            The verdicts, and by position the objections of rules; None if they are not known.
        """
        self._answers = []
        refused = cache(refused_record)
        verdicts = [
            (index, refused(message, policy) if instead is None else of_stored(instead))
            for index, message, policy, instead in self._stages.objections(
                destination, records, each=True
            )
        ]
        answers, self._answers = self._answers, []
        return verdicts, answers[0] if len(answers) == 1 else None

    def _validate(self, topic: Any, batch: Any) -> Iterable[tuple[int, str]]:
        assert self._policy.objections_of_rules is not None
        answer = _by_position(self._policy.objections_of_rules(topic, batch))
        self._answers.append(answer)
        return [(position, each[0].message) for position, each in answer.items()]


def _by_position(objections: Iterable[Any]) -> dict[int, list[Any]]:
    positions: dict[int, list[Any]] = {}
    for objection in objections:
        positions.setdefault(objection.position, []).append(objection)
    return positions


def _with_first(
    objections: Sequence[NamedObjection], first: NamedObjection
) -> Sequence[NamedObjection]:
    """Return objections, first that with the text of the verdict, which is always among them."""
    for position, objection in enumerate(objections):
        if objection.message == first.message:
            return [objection, *objections[:position], *objections[position + 1 :]]
    return [first, *objections]
