"""A producer's batch whose policies do not refuse it: what becomes of its bad records instead.

Policies are asked by mode, the strictest first (`penstock.mode`); those of a mode are asked about
the records that no stricter one objected to. So the strictest mode of the policies that object to a
record holds for it. A policy that does not decide counts as always: nothing passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.topic_keys import MARK
from penstock.engine.marks import PREFIX, has_marks, mark
from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import (
    ACCEPTED,
    TEXTS_MAX_BYTES,
    Diverted,
    Outcome,
    RecordError,
    refused,
    replaced,
)
from penstock.error_codes import MESSAGE_TOO_LARGE
from penstock.records.encoder import rebuild_with_headers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.engine.chain import Chain
    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import Verdict
    from penstock.records.batch import RecordBatch
    from penstock.records.stored import KeysAndValues

_OUTCOMES: Final = {MARK: Outcome.MARKED}
"""What becomes of bad records, by the mode of the policies that object to them."""


class Objected(NamedTuple):
    """The records that the policies of one mode object to.

    Attributes:
        mode: The mode.
        refusal: What the client would have been answered.
        errors: The records, by ascending position in the client's batch.
    """

    mode: str
    refusal: Verdict
    errors: Sequence[RecordError]


def judge_by_mode(
    chain: Chain,
    partition: int,
    topic_id: UUID,
    records: RecordColumns,
    positions: Sequence[int],
) -> tuple[Verdict, Sequence[Objected]]:
    """Judge records by the policies of each mode.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        records: In the client's order.
        positions: The position of each in the client's batch.

    Returns:
        The verdict about the batch, and where that is `ACCEPTED`, what is done with records.
    """
    found: list[Objected] = []
    for mode, policies in chain.tiers:
        verdict = policies.judge(partition, topic_id, records, positions)
        if verdict is ACCEPTED:
            continue
        if verdict.outcome is not Outcome.REFUSED or mode not in _OUTCOMES:
            return verdict, ()
        errors = verdict.record_errors or _of_all(verdict, positions)
        found.append(Objected(mode, verdict, errors))
        taken = {error.index for error in errors}
        left = [index for index, position in enumerate(positions) if position not in taken]
        if not left:
            break
        records, positions = records.pick(left), [positions[index] for index in left]
    return ACCEPTED, found


def _of_all(verdict: Verdict, positions: Sequence[int]) -> Sequence[RecordError]:
    """Return the errors of all records of a batch that is refused as a whole (KIP-686)."""
    size = len((verdict.message or "").encode())
    with_text = TEXTS_MAX_BYTES // size if size else len(positions)
    return [
        RecordError(position, verdict.message if count < with_text else None, verdict.policy)
        for count, position in enumerate(positions)
    ]


def judge_and_divert(
    chain: Chain, partition: int, topic_id: UUID, batch: RecordBatch, *, max_bytes: int
) -> Verdict:
    """Judge a batch of a topic without interceptors, some of whose policies do not refuse.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        batch: As the client sent it.
        max_bytes: A new batch that is larger is refused.
    """
    positions = range(len(batch.records))
    columns = StoredColumns(batch.records)
    verdict, found = judge_by_mode(chain, partition, topic_id, columns, positions)
    if verdict is not ACCEPTED:
        return verdict
    return divert(chain, batch, found, positions, max_bytes=max_bytes) or ACCEPTED


def divert(
    chain: Chain,
    batch: RecordBatch,
    found: Sequence[Objected],
    positions: Sequence[int],
    *,
    max_bytes: int,
    dropped: Sequence[int] = (),
    changed: KeysAndValues | None = None,
) -> Verdict | None:
    """Return the verdict about a batch with bad records that is not refused.

    Args:
        chain: The topic's policies.
        batch: As the client sent it.
        found: What policies object to.
        positions: The positions of the records that are stored, in the client's batch.
        max_bytes: A new batch that is larger is refused.
        dropped: The positions of the records that interceptors dropped.
        changed: The keys and the values of the records at `positions` as interceptors left them;
            None where they changed nothing.

    Returns:
        None where nothing has to be done for it.
    """
    if not found and not (chain.plan.marks and has_marks(batch.records)):
        return None
    marks = {
        error.index: mark(error, one.refusal.code)
        for one in found
        if one.mode == MARK
        for error in one.errors
    }
    data = rebuild_with_headers(
        batch,
        positions,
        [marks.get(position, ()) for position in positions],
        without=(PREFIX,),
        replaced=_of_batch(batch, positions, changed),
    )
    if len(data) > max_bytes:
        return too_large(len(data), max_bytes)
    diverted = tuple(
        Diverted(replace(one.refusal, outcome=_OUTCOMES[one.mode]), len(one.errors))
        for one in found
    )
    return replaced(data, dropped, diverted)


def _of_batch(
    batch: RecordBatch, positions: Sequence[int], changed: KeysAndValues | None
) -> KeysAndValues | None:
    """Return the keys and values of all records, where interceptors changed some."""
    if changed is None:
        return None
    keys, values = list(batch.records.keys), list(batch.records.values)
    for position, key, value in zip(positions, *changed, strict=True):
        keys[position], values[position] = key, value
    return keys, values


def too_large(size: int, max_bytes: int) -> Verdict:
    """Refuse a batch that no request could have had."""
    return refused(
        MESSAGE_TOO_LARGE,
        f"The batch has {size} bytes after its interceptors, more than the "
        f"{max_bytes} of socket.request.max.bytes",
        "",
    )
