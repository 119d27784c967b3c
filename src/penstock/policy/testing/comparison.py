"""Compares the verdicts of a policy on columns with those on single records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.columns import halves
from penstock.engine.verdict import Outcome
from penstock.policies.explanations import NO_REASON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from penstock.engine.chain import Chain
    from penstock.engine.columns import RecordColumns


class _Decided(NamedTuple):
    """The part of a verdict on a record that must be the same in every way of judging.

    The exception of a failure and its text can differ.
    """

    outcome: Outcome
    message: str | None = None
    key: bytes | None = None
    value: bytes | None = None

    def __str__(self) -> str:
        """Return it in words, without contents of the record."""
        if self.outcome is not Outcome.REFUSED:
            return self.outcome.value
        return f"refused with {self.message!r}"


def compare(chain: Chain, partition: int, topic_id: UUID, records: RecordColumns) -> None:
    """Judge the same records in every way: in a batch, in two, in a batch each, and record by
    record.

    The last only if the policy has that method.

    Raises:
        AssertionError: The verdict about a record differs.
    """
    together = list(_decided(chain, partition, topic_id, [records]))
    singles = [records.pick([index]) for index in range(records.count)]
    ways = {"each in a batch of its own": (chain, singles)}
    if records.count > 1:
        ways["in two batches"] = (chain, [half for _, half in halves(records)])
    by_record = chain.by_record()
    if not by_record.judges_columns:
        ways["record by record"] = (by_record, [records])
    for way, (judging, parts) in ways.items():
        apart = _decided(judging, partition, topic_id, parts)
        for index, (decided, other) in enumerate(zip(together, apart, strict=True)):
            if decided != other and not _explain_less(decided, other):
                raise AssertionError(
                    f"{chain.plan.policy_names} does not judge a batch like its records: record "
                    f"{index} of {records.count} is {decided} where all are in one batch, and "
                    f"{other} {way}"
                    + (" (another key or value)" if str(decided) == str(other) else "")
                )


def _explain_less(decided: _Decided, other: _Decided) -> bool:
    """Return whether both are the same refusal, which only one of the two explains.

    Built-in policies explain the first refused records of a batch, where that takes work.
    """
    return decided.outcome is other.outcome is Outcome.REFUSED and any(
        (each.message or "").endswith(NO_REASON) for each in (decided, other)
    )


def _decided(
    chain: Chain, partition: int, topic_id: UUID, parts: Iterable[RecordColumns]
) -> Iterator[_Decided]:
    for part in parts:
        verdicts, replaced = chain.judge_each(partition, topic_id, part)
        others = dict(verdicts)
        keys, values = replaced or ((None,) * part.count,) * 2
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            verdict = others.get(index)
            if verdict is None:
                yield _Decided(Outcome.ACCEPTED, None, key, value)
            else:
                refused = verdict.outcome is Outcome.REFUSED
                yield _Decided(verdict.outcome, verdict.message if refused else None)
