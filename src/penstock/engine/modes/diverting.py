"""Replaces the refusal of a producer's batch: marks or quarantines its bad records.

Policies judge by mode, the strictest first (`penstock.mode`); those of a mode judge
the records that no stricter one objected to. So the strictest mode of the policies that object to a
record holds for it. A policy that does not decide counts as always: nothing passes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import filterfalse, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.topic_keys import MARK, QUARANTINE
from penstock.engine.columns import put_in
from penstock.engine.modes.marks import PREFIX, has_marks, marks_of
from penstock.engine.modes.quarantine import Blame, Place, blame, write_letters
from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import (
    ACCEPTED,
    TEXTS_MAX_BYTES,
    Diverted,
    Outcome,
    RecordError,
    refused,
    refused_because,
    replaced,
)
from penstock.kafka.error_codes import MESSAGE_TOO_LARGE
from penstock.kafka.records.encoder import rebuild_with_headers
from penstock.kafka.records.header import TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from penstock.engine.chain import Chain
    from penstock.engine.columns import RecordColumns
    from penstock.engine.verdict import PolicyVerdict
    from penstock.kafka.records.batch import RecordBatch
    from penstock.kafka.records.stored import KeysAndValues, StoredRecords

_OUTCOMES: Final = {MARK: Outcome.MARKED, QUARANTINE: Outcome.QUARANTINED}
"""The outcome of bad records, by the mode of the policies that object to them."""
_DECIDED_BEFORE: Final = "it was refused when its batch came first"
_OF_TRANSACTION: Final = (
    "penstock.mode is quarantine, which sets no records of transactions aside: an aborted one "
    "would leave them behind"
)


class ModeObjections(NamedTuple):
    """The records that the policies of one mode object to.

    Attributes:
        refusal: What the client would have been answered.
        errors: The records, by ascending position in the client's batch.
    """

    mode: str
    refusal: PolicyVerdict
    errors: Sequence[RecordError]


def judge_by_mode(
    chain: Chain,
    partition: int,
    topic_id: UUID,
    records: RecordColumns,
    positions: Sequence[int],
) -> tuple[PolicyVerdict, Sequence[ModeObjections]]:
    """Judge records by the policies of each mode.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        records: In the client's order.
        positions: The position of each in the client's batch.

    Returns:
        The verdict about the batch, and if it is `ACCEPTED`, the mode of each diverted record.
    """
    objections: list[ModeObjections] = []
    for number, (mode, policies) in enumerate(chain.tiers, 1):
        verdict = policies.judge(partition, topic_id, records, positions)
        if verdict is ACCEPTED:
            continue
        if verdict.outcome is not Outcome.REFUSED or mode not in _OUTCOMES:
            return verdict, ()
        errors = verdict.record_errors or _of_all(verdict, positions)
        objections.append(ModeObjections(mode, verdict, errors))
        if number == len(chain.tiers):
            break
        refused_positions = {error.index for error in errors}
        indexes = [
            index for index, position in enumerate(positions) if position not in refused_positions
        ]
        if not indexes:
            break
        records, positions = records.pick(indexes), [positions[index] for index in indexes]
    return ACCEPTED, objections


def _of_all(verdict: PolicyVerdict, positions: Sequence[int]) -> Sequence[RecordError]:
    """Return errors for all records of a batch that is refused completely (KIP-686)."""
    size = len((verdict.message or "").encode())
    with_text = TEXTS_MAX_BYTES // size if size else len(positions)
    return [
        RecordError(position, verdict.message if count < with_text else None, verdict.policy)
        for count, position in enumerate(positions)
    ]


def judge_and_divert(
    chain: Chain,
    partition: int,
    topic_id: UUID,
    records: StoredRecords,
    batch_source: Callable[[], RecordBatch],
    *,
    max_bytes: int,
) -> PolicyVerdict:
    """Judge a batch of a topic without interceptors, some of whose policies do not refuse.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        records: As the client sent them.
        batch_source: Returns their batch; called if it is not stored as it is.
        max_bytes: A new batch that is larger is refused.
    """
    positions = range(len(records))
    verdict, objections = judge_by_mode(
        chain, partition, topic_id, StoredColumns(records), positions
    )
    if verdict is not ACCEPTED or not (objections or _is_marked(chain, records)):
        return verdict
    rest = Rest(positions)
    return (
        divert(chain, partition, batch_source(), objections, rest, max_bytes=max_bytes) or ACCEPTED
    )


class Rest(NamedTuple):
    """The records of a batch that policies judged.

    Attributes:
        positions: Their positions in the client's batch.
        contents: Their keys and values as interceptors left them; None where nothing is changed.
        other_positions: The positions of the others, ascending.
        blame_by_position: Those of the others that have become dead letters, or have to, and why.
    """

    positions: Sequence[int]
    contents: KeysAndValues | None = None
    other_positions: Sequence[int] = ()
    blame_by_position: Mapping[int, Blame] = MappingProxyType({})


def blame_again(
    chain: Chain, partition: int, topic_id: UUID, batch: RecordBatch, positions: Sequence[int]
) -> dict[int, Blame]:
    """Return why records become dead letters that did when the same batch came before.

    Later verdicts do not change them, because the other records may already be stored.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        topic_id: The topic's id.
        batch: As the client sent it.
        positions: The positions of these records.
    """
    blamed = decided_before(positions)
    records = StoredColumns(batch.records).pick(positions)
    for mode, policies in chain.tiers:
        if mode == QUARANTINE and blamed:
            verdict = policies.judge(partition, topic_id, records, positions)
            if verdict.outcome is Outcome.REFUSED:
                errors = verdict.record_errors or _of_all(verdict, positions)
                blamed |= blame(errors, verdict.code)
    return blamed


def decided_before(positions: Sequence[int]) -> dict[int, Blame]:
    """Return the reasons of records that became dead letters, without their first verdict."""
    return dict.fromkeys(positions, Blame("", _DECIDED_BEFORE))


def divert(
    chain: Chain,
    partition: int,
    batch: RecordBatch,
    objections: Sequence[ModeObjections],
    rest: Rest,
    *,
    max_bytes: int,
) -> PolicyVerdict | None:
    """Return the verdict about a batch with bad records that is not refused.

    Args:
        chain: The topic's policies.
        partition: The partition's number.
        batch: As the client sent it.
        objections: The objections of policies.
        rest: The records that they judged.
        max_bytes: A new batch that is larger is refused.

    Returns:
        None where nothing has to be done for it.
    """
    is_marked = _is_marked(chain, batch.records)
    if not objections and not is_marked and not rest.blame_by_position:
        return None
    blamed = dict(rest.blame_by_position)
    marks: dict[int, Sequence[tuple[str, bytes | None]]] = {}
    for mode, refusal, errors in objections:
        if mode == QUARANTINE and batch.attributes & TRANSACTIONAL:
            return refused_because(_OF_TRANSACTION, Diverted(refusal, len(errors)))
        if mode == QUARANTINE:
            blamed |= blame(errors, refusal.code)
        else:
            marks |= marks_of(errors, refusal.code)
    diverted = tuple(
        Diverted(
            replace(objection.refusal, outcome=_OUTCOMES[objection.mode]), len(objection.errors)
        )
        for objection in objections
    )
    letters = b""
    if blamed:
        plan = chain.plan
        place = Place(plan.topic, partition, plan.dead_letters_have_context, plan.digest)
        letters = write_letters(batch, blamed, place)
    kept_positions = list(filterfalse(blamed.__contains__, rest.positions))
    data = b""
    if kept_positions:
        data = _stored(
            batch, kept_positions, marks, rest, without=(PREFIX,) if chain.plan.marks else ()
        )
    if len(data) > max_bytes:
        return too_large(len(data), max_bytes)
    dropped = sorted({*rest.other_positions, *blamed})
    return replaced(data, dropped, diverted, quarantined=sorted(blamed), letters=letters)


def _is_marked(chain: Chain, records: StoredRecords) -> bool:
    """Return whether a client has sent marks, which are not its to set."""
    return chain.plan.marks and has_marks(records)


def _stored(
    batch: RecordBatch,
    kept_positions: Sequence[int],
    marks: Mapping[int, Sequence[tuple[str, bytes | None]]],
    rest: Rest,
    *,
    without: Sequence[str],
) -> bytes:
    """Write the records that are stored."""
    new_contents = None
    if rest.contents is not None:
        original_contents = batch.records.keys, batch.records.values
        new_contents = put_in(original_contents, rest.positions, rest.contents)
    appended = list(map(marks.get, kept_positions, repeat(()))) if marks else None
    return rebuild_with_headers(
        batch, kept_positions, appended, without=without, replaced=new_contents
    )


def too_large(size: int, max_bytes: int) -> PolicyVerdict:
    """Refuse a batch that no request could have had."""
    return refused(
        MESSAGE_TOO_LARGE,
        f"The batch has {size} bytes after its interceptors, more than the "
        f"{max_bytes} of socket.request.max.bytes",
        "",
    )
