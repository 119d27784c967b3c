"""A producer's batch with interceptors: intercepted, judged, and rebuilt where it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.chain import remaining_positions
from penstock.engine.interceptors.interceptor_chain import intercept
from penstock.engine.modes.diverting import (
    Rest,
    blame_again,
    decided_before,
    divert,
    judge_by_mode,
    too_large,
)
from penstock.engine.modes.quarantine import write_letters
from penstock.engine.stored_columns import StoredColumns
from penstock.engine.verdict import ACCEPTED, UNDECIDED, PolicyVerdict, refused, replaced
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.encoder import rebuild
from penstock.kafka.records.errors import UnreadableRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from uuid import UUID

    from penstock.engine.chain import Chain
    from penstock.engine.modes.diverting import ModeObjections
    from penstock.engine.modes.quarantine import Place
    from penstock.kafka.records.batch import RecordBatch


def intercept_and_judge(
    chain: Chain,
    partition: int,
    topic_id: UUID,
    batch: RecordBatch,
    *,
    dropped_before: Collection[int] = (),
    quarantined_before: Sequence[int] = (),
    on_intercepted: Callable[[], None],
    max_bytes: int,
) -> PolicyVerdict:
    """Run a topic's interceptors and its other policies over one batch.

    Args:
        chain: The topic's policies, interceptors among them.
        partition: The partition's number.
        topic_id: The topic's id.
        batch: As the client sent it.
        dropped_before: Positions of records that were dropped when the same batch was sent
            before: they are dropped again, even if the interceptors have changed.
        quarantined_before: Those among them that became, or should have become, dead letters.
        on_intercepted: Called when the interceptors are through and judging begins.
        max_bytes: A new batch that is larger is refused.

    Returns:
        The verdict; its positions are those of the client's batch.
    """
    count = len(batch.records)
    again = [position for position in quarantined_before if position < count]
    records = StoredColumns(batch.records)
    positions: Sequence[int] = range(count)
    if dropped_before:
        positions = [index for index in positions if index not in dropped_before]
        records = records.pick(positions)
    interception = intercept(
        chain.interceptors, chain.plan.topic, partition, records, until_failure=True
    )
    if interception.verdicts and interception.verdicts[-1][1].outcome in UNDECIDED:
        return interception.verdicts[-1][1]
    on_intercepted()
    keys, values = interception.keys, interception.values
    passed = interception.records(records) if chain.judges else None
    dropped = {index for index in dropped_before if index < count}
    if interception.verdicts:
        indexes = remaining_positions(records.count, interception.verdicts)
        keys, values = [keys[index] for index in indexes], [values[index] for index in indexes]
        passed = passed.pick(indexes) if passed is not None else None
        dropped.update(positions[index] for index, _ in interception.verdicts)
        positions = [positions[index] for index in indexes] if dropped_before else indexes
    objections: Sequence[ModeObjections] = ()
    if positions and passed is not None:
        verdict, objections = judge_by_mode(chain, partition, topic_id, passed, positions)
        if verdict is not ACCEPTED:
            return verdict
    rest = Rest(
        positions,
        (keys, values) if interception.has_changes else None,
        sorted(dropped),
        blame_again(chain, partition, topic_id, batch, again) if again else {},
    )
    diverted = divert(chain, partition, batch, objections, rest, max_bytes=max_bytes)
    if diverted is not None:
        return diverted
    if not positions:
        return replaced(b"", sorted(dropped))
    if not dropped and not interception.has_changes:
        return ACCEPTED
    return _rebuilt(batch, positions, keys, values, sorted(dropped), max_bytes)


def drop_again(
    data: bytes | memoryview,
    dropped_before: Collection[int],
    *,
    api_version: int,
    max_decompressed_bytes: int,
    max_records: int,
    max_bytes: int,
    quarantined_before: Collection[int] = (),
    place: Place | None = None,
) -> PolicyVerdict:
    """Drop records of a batch whose topic has no policies any more.

    Args:
        data: The batch, as the client sent it.
        dropped_before: See `intercept_and_judge`.
        quarantined_before: See `intercept_and_judge`.
        place: Where the batch was going; needed for dead letters.
        api_version: The version of the Produce request.
        max_decompressed_bytes: The maximum size of the decompressed records.
        max_records: The maximum number of records.
        max_bytes: A new batch that is larger is refused.
    """
    try:
        batch = read_batch(
            data,
            api_version=api_version,
            max_decompressed_bytes=max_decompressed_bytes,
            max_records=max_records,
        )
    except UnreadableRecords as error:
        return refused(error.code, error.message, "")
    count = len(batch.records)
    dropped = sorted(index for index in dropped_before if index < count)
    positions = [index for index in range(count) if index not in dropped_before]
    again = [index for index in dropped if index in quarantined_before]
    letters = b""
    if again and place is not None:
        letters = write_letters(batch, decided_before(again), place)
    if not positions:
        return replaced(b"", dropped, quarantined=again, letters=letters)
    records = StoredColumns(batch.records).pick(positions)
    verdict = _rebuilt(batch, positions, [*records.keys], [*records.values], dropped, max_bytes)
    if verdict.replacement is None or not letters:
        return verdict
    return replaced(verdict.replacement.data, dropped, quarantined=again, letters=letters)


def _rebuilt(
    batch: RecordBatch,
    positions: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    dropped: Sequence[int],
    max_bytes: int,
) -> PolicyVerdict:
    data = rebuild(batch, positions, keys, values)
    if len(data) > max_bytes:
        return too_large(len(data), max_bytes)
    return replaced(data, dropped)
