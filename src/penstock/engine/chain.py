"""One topic's policies, applied to records: the only place where policies are called.

Order: the interceptors (KIP-905), the batch policy (KIP-686), then for each record the
validators (KIP-729) and the validation policy (KIP-940), record by record or as columns; then the
topic's named policies, of any of these interfaces. The first objection to a record counts; the
records after it are still judged. With a `RetriableException` a policy reports that it cannot
decide now: nothing passes, and the rest is not judged. Any other exception, unless it is the
exception for a refusal, is a failure, and a failed batch does not pass.

`Chain.judge` judges a producer's batch, `Chain.judge_each` each record separately.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import OBSERVE
from penstock.engine.columns import put_in
from penstock.engine.interceptors.interceptor_chain import intercept
from penstock.engine.not_now import may_pass
from penstock.engine.objections import BatchPolicy, Destination, RecordPolicy, Stages
from penstock.engine.plans.loading import frames_of
from penstock.engine.verdict import (
    ACCEPTED,
    FailureCause,
    Outcome,
    PolicyVerdict,
    PostponedError,
    RecordError,
    cause_of,
    failed,
    of_stored,
    refused_record,
    refused_records,
)
from penstock.kafka.error_codes import REQUEST_TIMED_OUT
from penstock.policy import (
    TopicIdPartition,
    TopicMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.columns import RecordColumns
    from penstock.engine.instances import PolicyInstances
    from penstock.engine.interceptors.interceptor_chain import Interceptor
    from penstock.engine.objections import Objection, Policy
    from penstock.engine.plans.topic_plan import TopicPlan


KeysAndValues = tuple["Sequence[bytes | None]", "Sequence[bytes | None]"]
"""All keys and all values of some records, as interceptors left them."""


class RecordVerdicts(NamedTuple):
    """The verdict and the replacement of each of some records.

    Attributes:
        verdicts: Position and verdict of the records that are not accepted.
        replaced: The keys and values after the interceptors, by position
            (None for dropped and failed records; unchanged for records that no interceptor
            processed); None if no interceptor ran.
    """

    verdicts: Sequence[tuple[int, PolicyVerdict]]
    replaced: KeysAndValues | None


class Chain:
    """The policies of one topic, ready to judge.

    Attributes:
        ordered_policies: Everything but the interceptors, in order.
        tiers: The modes of the policies except interceptors (`penstock.mode`), the strictest
            first, and the policies of each.

    Raises:
        ConfigurationError: A policy of the topic cannot be configured, or may not be named.
    """

    def __init__(self, plan: TopicPlan, policies: PolicyInstances) -> None:
        if plan.unusable:
            raise ConfigurationError(plan.unusable)
        self.plan = plan
        self.interceptors = (
            policies.interceptors_for(plan.topic, plan.named_interceptors)
            if plan.interceptors
            else []
        )
        self.records_policy = _records_policy(plan, policies)
        self.validators = [policies.validators[name] for name in plan.validators]
        self.validation = policies.validation_policy if plan.validation_policy else None
        self.named_policies = policies.named(plan)
        policies.prepare(plan)
        self._arrange()
        # Small batches often come from one partition, one after the other.
        self._destination_key: tuple[int, UUID] = (-1, UUID(int=0))
        self._destination = destination_of(plan, *self._destination_key)
        self.tiers = self._by_mode()

    def _by_mode(self) -> Sequence[tuple[str, Chain]]:
        """Return the policies of each mode that the topic's have, the strictest first."""
        modes = self.plan.judging_modes
        if len(modes) == 1:
            return [(modes[0], self)]
        return [(mode, self.subset(self.plan.with_mode(mode))) for mode in modes]

    def around_interceptors(self) -> tuple[Sequence[Chain], Sequence[Chain]]:
        """Return the policies of each mode that judge before interceptors, and those after them.

        Interceptors have the topic's mode. Where that is `observe`, policies of stricter modes
        judge records as they were sent, since gateways store them so.
        """
        tiers = [policies for _, policies in self.tiers]
        if self.plan.mode != OBSERVE:
            return (), tiers
        count = sum(mode != OBSERVE for mode, _ in self.tiers)
        return tiers[:count], tiers[count:]

    def subset(self, plan: TopicPlan, interceptors: Sequence[Interceptor] = ()) -> Chain:
        """Return a chain of some of these policies: those of a plan, and interceptors."""
        chain = copy(self)
        chain.plan = plan
        chain.interceptors = list(interceptors)
        chain.records_policy = self.records_policy if plan.records_policy else None
        chain.validators = [each for each in self.validators if each.name in plan.validators]
        chain.validation = self.validation if plan.validation_policy else None
        chain.named_policies = [each for each in self.named_policies if each.name in plan.named]
        chain._destination = destination_of(plan, *chain._destination_key)  # noqa: SLF001 - of this class
        chain._arrange()  # noqa: SLF001
        chain.tiers = chain._by_mode()  # noqa: SLF001
        return chain

    def interceptors_only(self, interceptors: Sequence[Interceptor]) -> Chain:
        """Return a chain of some interceptors, which judges nothing."""
        return self.subset(_bare(self.plan), interceptors)

    def only(self, policy: Policy) -> Chain:
        """Return a chain of one policy that judges: one of `ordered_policies`."""
        bare = _bare(self.plan)
        if any(policy is named for named in self.named_policies):
            return self.subset(replace(bare, named=(policy.name,)))
        if isinstance(policy, BatchPolicy):
            return self.subset(replace(bare, records_policy=policy.name))
        if policy is self.validation:
            return self.subset(replace(bare, validation_policy=policy.name))
        return self.subset(replace(bare, validators=(policy.name,)))

    def by_record(self) -> Chain:
        """Return a chain of the same policies, which judges record by record where they can."""
        chain = copy(self)
        chain.interceptors = [each.by_record() for each in self.interceptors]
        chain.validators = [each.by_record() for each in self.validators]
        chain.validation = self.validation and self.validation.by_record()
        chain.named_policies = [each.by_record() for each in self.named_policies]
        chain._arrange()  # noqa: SLF001 - of this class
        chain.tiers = chain._by_mode()  # noqa: SLF001
        return chain

    def _arrange(self) -> None:
        """Put the policies that judge into their order."""
        last = () if self.validation is None else (self.validation,)
        by_record = (*self.validators, *last, *self.named_policies)
        self.ordered_policies: tuple[Policy, ...] = (
            by_record if self.records_policy is None else (self.records_policy, *by_record)
        )
        self._stages = Stages(by_record)

    @property
    def judges(self) -> bool:
        """Whether anything judges the topic, besides interceptors."""
        return bool(self.ordered_policies)

    @property
    def judges_columns(self) -> bool:
        """Whether a policy of KIP-729, 905 or 940 gets batches as columns."""
        return any(
            isinstance(policy, RecordPolicy) and policy.validate_batch
            for policy in self.ordered_policies
        ) or any(interceptor.process_batch for interceptor in self.interceptors)

    @property
    def is_empty(self) -> bool:
        """Whether nothing looks at the topic's records."""
        return not (self.interceptors or self.judges)

    def judge(
        self,
        partition: int,
        topic_id: UUID,
        records: RecordColumns,
        positions: Sequence[int] | None = None,
    ) -> PolicyVerdict:
        """Judge the records of one batch of a producer; interceptors are not run here.

        Args:
            partition: The partition's number.
            topic_id: The topic's id.
            records: In the client's order.
            positions: The position of each in the client's batch; 0, 1, ... by default.

        Returns:
            The verdict about the batch, about these positions.
        """
        if self.records_policy is not None:
            verdict = self.records_policy.judge(self.plan.topic, partition, records)
            if verdict is not None:
                return verdict
        errors = []
        objections = self._objections(partition, topic_id, records, each=False)
        for index, message, policy, instead in objections:
            if instead is not None:
                return instead
            position = positions[index] if positions is not None else index
            errors.append(RecordError(position, message, policy))
        return refused_records(errors) if errors else ACCEPTED

    def judge_each(
        self,
        partition: int,
        topic_id: UUID,
        records: RecordColumns,
        *,
        records_policy_batch: int = 1,
    ) -> RecordVerdicts:
        """Judge each record, as if it had been sent alone.

        Policies judge by mode, the strictest first, as in a gateway: of several policies
        that object to a record, one of the strictest mode is named. See `around_interceptors` for
        what each of them is shown.

        Args:
            topic_id: The topic's id.
            records: In the order of their offsets.
            records_policy_batch: How many consecutive records a `RecordsPolicy` sees at
                most at a time; its verdict is that of all of them.

        Returns:
            What became of each.

        Raises:
            PostponedError: A policy cannot decide now; no record has a verdict.
        """
        earlier_chains, later_chains = self.around_interceptors()
        undecided = _OpenRecords(records)
        replaced = None
        for policies in earlier_chains:
            undecided.judge(policies, partition, topic_id, records_policy_batch)
        if self.interceptors:
            destination = TopicPartition(self.plan.topic, partition)
            replaced = undecided.intercept(self.interceptors, destination)
        for policies in later_chains:
            undecided.judge(policies, partition, topic_id, records_policy_batch)
        return RecordVerdicts(undecided.verdicts, replaced)

    def judge_by_records_policy(
        self, partition: int, records: RecordColumns, batch_size: int
    ) -> list[tuple[int, PolicyVerdict]]:
        """Return the verdicts of the `RecordsPolicy`, if there is one."""
        if self.records_policy is None:
            return []
        destination = TopicPartition(self.plan.topic, partition)
        verdicts = self.records_policy.judge_each(destination, records, batch_size)
        return [(index, of_stored(verdict)) for index, verdict in verdicts]

    def judge_singly(
        self, partition: int, topic_id: UUID, records: RecordColumns, batch_size: int
    ) -> list[tuple[int, PolicyVerdict]]:
        """Return the verdicts of the policies that see single records."""
        return [
            (index, refused_record(message, policy) if instead is None else of_stored(instead))
            for index, message, policy, instead in self._objections(
                partition, topic_id, records, each=True, batch_size=batch_size
            )
        ]

    def _objections(
        self,
        partition: int,
        topic_id: UUID,
        records: RecordColumns,
        *,
        each: bool,
        batch_size: int = 1,
    ) -> Iterable[Objection]:
        if self._destination_key != (partition, topic_id):
            self._destination = destination_of(self.plan, partition, topic_id)
            self._destination_key = partition, topic_id
        return self._stages.objections(self._destination, records, each=each, batch_size=batch_size)


class _OpenRecords:
    """The records that nothing has objected to so far.

    Attributes:
        verdicts: Position and verdict of the others.
    """

    def __init__(self, records: RecordColumns) -> None:
        self.verdicts: list[tuple[int, PolicyVerdict]] = []
        self._all = self._records = records
        self._positions: Sequence[int] = range(records.count)
        self._new_verdicts: Sequence[tuple[int, PolicyVerdict]] = ()

    def judge(
        self, policies: Chain, partition: int, topic_id: UUID, records_policy_batch: int
    ) -> None:
        """Judge records by all policies of a chain but the interceptors, ignoring modes."""
        size = records_policy_batch
        if (records := self._rest()).count:
            self._decide(policies.judge_by_records_policy(partition, records, size))
        if (records := self._rest()).count:
            self._decide(policies.judge_singly(partition, topic_id, records, size))

    def intercept(
        self, interceptors: Sequence[Interceptor], destination: TopicPartition
    ) -> KeysAndValues:
        """Run the interceptors; return the keys and values of all records.

        Raises:
            PostponedError: An interceptor cannot decide now.
        """
        records = self._rest()
        interception = intercept(interceptors, destination.topic, destination.partition, records)
        if interception.verdicts and interception.verdicts[-1][1].outcome is Outcome.POSTPONED:
            raise PostponedError(interception.verdicts[-1][1])
        self._records = interception.records(records)
        self._decide(interception.verdicts)
        if records is self._all:
            return interception.keys, interception.values
        original_contents = self._all.keys, self._all.values
        return put_in(original_contents, self._positions, (interception.keys, interception.values))

    def _decide(self, verdicts: Sequence[tuple[int, PolicyVerdict]]) -> None:
        self.verdicts += ((self._positions[index], verdict) for index, verdict in verdicts)
        self._new_verdicts = verdicts

    def _rest(self) -> RecordColumns:
        """Return them, without those decided last: after the last decision that is not needed."""
        if self._new_verdicts:
            remaining = remaining_positions(self._records.count, self._new_verdicts)
            self._records = self._records.pick(remaining)
            self._positions = [self._positions[index] for index in remaining]
            self._new_verdicts = ()
        return self._records


def _bare(plan: TopicPlan) -> TopicPlan:
    """Return a plan without policies that judge."""
    return replace(plan, records_policy=None, validators=(), validation_policy=None, named=())


def _records_policy(plan: TopicPlan, policies: PolicyInstances) -> BatchPolicy | None:
    """Return the topic's own instance of its batch policy, under its class."""
    name = plan.records_policy
    if not name:
        return None
    return BatchPolicy(name, policies.judging_records(name, plan.topic).validate)


def remaining_positions(count: int, decisions: Sequence[tuple[int, object]]) -> list[int]:
    """Return the positions without a decision."""
    decided_positions = {index for index, _ in decisions}
    return [index for index in range(count) if index not in decided_positions]


def destination_of(plan: TopicPlan, partition: int, topic_id: UUID) -> Destination:
    """Return where records of a partition are going."""
    return Destination(
        TopicPartition(plan.topic, partition),
        TopicMetadata(
            TopicIdPartition(topic_id, plan.topic, partition),
            plan.validation_setting or "",
            MappingProxyType(dict(plan.validation_configs)),
        ),
    )


def inapplicable(error: BaseException) -> PolicyVerdict:
    """Return the verdict on a batch for which policies, or what reads it, ended in an error."""
    return failed(
        "of this topic",
        f"could not be applied: {type(error).__name__}",
        detail=frames_of(error),
        cause=cause_of(error),
    )


def unusable(plan: TopicPlan, error: ConfigurationError) -> PolicyVerdict:
    """Return the verdict for a topic whose policy cannot be configured, perhaps only now."""
    names = ", ".join(plan.policies) or "of this topic"
    if may_pass(error):
        return PolicyVerdict(
            outcome=Outcome.POSTPONED,
            code=REQUEST_TIMED_OUT,
            message="cannot be configured now",
            policy=names,
            detail=str(error),
            cause=FailureCause.UNUSABLE,
        )
    return failed(
        names,
        "cannot be configured",
        detail=str(error),
        cause=FailureCause.UNUSABLE,
    )
