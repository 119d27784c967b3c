"""Judges dead letters again: those that pass now return, the rest waits for the next repair."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from penstock.batch_jobs.letter_outcomes import (
    AGAIN,
    DOUBLE,
    PARKED,
    REFUSED,
    RETURNED,
    sink_of,
)
from penstock.batch_jobs.refused_letters import RefusedLetters
from penstock.batch_jobs.targets import SourcePartition, fitting
from penstock.batch_jobs.timestamps import retimed, runs
from penstock.engine.columns import Columns
from penstock.engine.modes import dead_letters
from penstock.engine.modes.dead_letters import (
    Attempts,
    Origin,
    ReasonHeaders,
    own_headers,
    read_origin,
)
from penstock.engine.verdict import ACCEPTED, Outcome
from penstock.error_codes import MESSAGE_TOO_LARGE
from penstock.records.header import COUNT_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.batch_jobs.counts import TaskCounts
    from penstock.batch_jobs.judge import BatchJudge
    from penstock.batch_jobs.targets import OutgoingBatch, Target
    from penstock.client.protocol.write_errors import RefusedBatchError
    from penstock.engine.verdict import PolicyVerdict
    from penstock.policy import Header
    from penstock.records.stored import KeysAndValues
    from penstock.records.stored_batch import StoredBatch

LOOKS_BACK: Final = 10_000
"""How many offsets before a run are searched for letters that are repeated in it. A batch is
retried within minutes (`delivery.timeout.ms`), and most batches at once."""
_IDS_MAX: Final = 500_000


@dataclass(frozen=True)
class _Letters:
    """The dead letters of a batch, judged.

    Attributes:
        origins: Where each first was.
        own: The headers of each, without those of a dead letter.
        verdicts: On each.
        replaced: All keys and values, after the interceptors.
        sinks: The destination of each.
    """

    origins: Sequence[Origin]
    own: Sequence[Sequence[Header]]
    verdicts: list[PolicyVerdict]
    replaced: KeysAndValues
    sinks: list[str]

    def of(self, *sinks: str) -> list[int]:
        """Return the positions of the letters that go to some sinks."""
        return [position for position, sink in enumerate(self.sinks) if sink in sinks]


class Redrive:
    """Writes dead letters that are accepted now to the target, and the others where they wait.

    A letter that returns has its original partition (modulo the target's number of partitions), its
    first timestamp, and of the headers of a dead letter only the number of attempts and that
    timestamp. A letter that is refused again is appended to the dead letters, or parked after
    `replays_max` attempts: with its bytes, the new reason, and the current time.

    Policies see records as they would return: in their first partition, with their first timestamp
    and without the headers of a dead letter.

    The same applies to letters that the target's broker refuses: such a batch is passed to
    `refuse`, and the next attempt returns the others.

    Its counts are `RETURNED`, `AGAIN`, `PARKED`, `DROPPED`, `DOUBLE` and `REFUSED`; reasons are
    those of all that do not return.
    """

    def __init__(
        self,
        judge: BatchJudge,
        topic: str,
        partition: int,
        *,
        target: Target,
        again: Target,
        parked: Target,
        replays_max: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare for one partition of a dead letter topic.

        Args:
            judge: The policies of the target, with the repairing interceptor if there is any.
            topic: The dead letter topic.
            partition: Its partition.
            target: Where records return to.
            again: The dead letter topic itself: its end is appended to, after the range.
            parked: Where records are written that failed `replays_max` times.
            replays_max: See `parked`; where the topic has parked letters, see `Attempts`.
            clock: Returns seconds since the epoch.
        """
        self._judge = judge
        self._source = SourcePartition(topic, partition)
        self._target = target
        self._again = again
        self._parked = parked
        self._attempts = Attempts.of(topic, replays_max)
        self._clock = clock
        self._headers = ReasonHeaders()
        self._refused = RefusedLetters(target.topic)
        self._is_committing = False
        self._first_offsets: OrderedDict[bytes, int] = OrderedDict()

    def recall(self, batch: StoredBatch) -> None:
        """Take note of letters that are before those that are redriven."""
        self._doubles(batch)

    def _doubles(self, batch: StoredBatch) -> set[int]:
        """Return the positions of letters that were there before.

        A batch may be read again, after its transaction was lost: then its letters are not
        duplicates of themselves.
        """
        doubles: set[int] = set()
        if not batch.records.has_header(dead_letters.ID):
            return doubles
        for position, headers in enumerate(batch.records.headers):
            letter_id = dead_letters.read_id(headers)
            if letter_id is None:
                continue
            offset = batch.offsets[position]
            if self._first_offsets.setdefault(letter_id, offset) < offset:
                doubles.add(position)
            if len(self._first_offsets) > _IDS_MAX:
                self._first_offsets.popitem(last=False)
        return doubles

    def process(self, batch: StoredBatch, counts: TaskCounts) -> Iterator[OutgoingBatch]:
        """Return the batches to write for a batch; see `penstock.batch_jobs.task.BatchJob`."""
        if self._is_committing:
            self._is_committing = False
            self._refused.forget_before(batch.offsets[0])
            self._refused.forget_sent()
        letters = self._judged(batch)
        outgoing = list(self._returned(batch, letters))
        for sink, verdict in zip(letters.sinks, letters.verdicts, strict=True):
            counts.outcomes[sink] += 1
            if sink != DOUBLE and verdict.outcome is not Outcome.ACCEPTED:
                counts.add_reason(self._target.topic, verdict)
        yield from outgoing
        yield from self._keep(batch, letters, letters.of(AGAIN, REFUSED), self._again)
        yield from self._keep(batch, letters, letters.of(PARKED), self._parked)

    def rest(self) -> Iterable[OutgoingBatch]:
        """Return nothing: nothing waits."""
        self._is_committing = True
        return ()

    def forget(self) -> None:
        """Forget batches without a commit: their transaction is lost."""
        self._is_committing = False
        self._refused.forget_sent()

    def refuse(self, error: RefusedBatchError) -> bool:
        """Take note that a batch was refused; return False if it was not for the target."""
        return self._refused.learn(error)

    def _judged(self, batch: StoredBatch) -> _Letters:
        records = batch.records
        all_headers, timestamps = records.headers, records.timestamps
        origins = [
            read_origin(
                headers, Origin(self._source.topic, self._source.partition, offset, timestamp)
            )
            for headers, offset, timestamp in zip(
                all_headers, batch.offsets, timestamps, strict=True
            )
        ]
        own = [own_headers(headers) for headers in all_headers]
        columns = Columns(
            len(records),
            [origin.timestamp for origin in origins],
            records.keys,
            records.values,
            own,
        )
        verdicts = [ACCEPTED] * len(records)
        keys, values = list(records.keys), list(records.values)
        for partition, run in groupby(
            range(len(records)), key=lambda position: origins[position].partition
        ):
            positions = list(run)
            found = self._judge.verdicts(partition, columns.pick(positions))
            for index, verdict in found.verdicts:
                verdicts[positions[index]] = verdict
            if found.replaced is not None:
                first, end = positions[0], positions[-1] + 1
                keys[first:end], values[first:end] = map(list, found.replaced)
        doubles = self._doubles(batch)
        sinks = [
            DOUBLE
            if position in doubles
            else sink_of(verdict.outcome, origin.replays, self._attempts)
            for position, (verdict, origin) in enumerate(zip(verdicts, origins, strict=True))
        ]
        letters = _Letters(origins, own, verdicts, (keys, values), sinks)
        if self._refused:
            for position in letters.of(RETURNED):
                why = self._refused.verdict(batch.offsets[position])
                if why is not None:
                    self._stays(letters, position, why)
        return letters

    def _stays(self, letters: _Letters, position: int, verdict: PolicyVerdict) -> None:
        """Keep a letter that the target's broker refuses."""
        letters.verdicts[position] = verdict
        is_last = letters.origins[position].replays + 1 >= self._attempts.maximum
        letters.sinks[position] = PARKED if is_last else REFUSED

    def _returned(self, batch: StoredBatch, letters: _Letters) -> Iterator[OutgoingBatch]:
        """Return the letters that return; keep those that are too large for the target."""
        returned: dict[int, list[int]] = {}
        for position in letters.of(RETURNED):
            number = letters.origins[position].partition % self._target.partitions
            returned.setdefault(number, []).append(position)
        for number, positions in sorted(returned.items()):
            for run in runs(positions, letters.origins, letters.own):
                for some in self._refused.halves(run, batch.offsets):
                    yield from self._return(batch, letters, some, number)

    def _return(
        self, batch: StoredBatch, letters: _Letters, positions: Sequence[int], partition: int
    ) -> Iterator[OutgoingBatch]:
        timestamps = [origin.timestamp for origin in letters.origins]
        offsets = [batch.offsets[position] for position in positions]

        def too_large(index: int) -> None:
            verdict = self._refused.refuse(offsets[index], MESSAGE_TOO_LARGE)
            self._stays(letters, positions[index], verdict)

        for outgoing in fitting(
            self._target,
            partition,
            len(positions),
            lambda start, end: retimed(
                batch,
                positions[start:end],
                timestamps,
                letters.own,
                letters.replaced,
                [_returning(letters.origins[position]) for position in positions[start:end]],
            ),
            self._source.of(batch, positions),
            too_large=too_large,
        ):
            first = offsets.index(outgoing.source.offset)
            self._refused.send(offsets[first : first + _record_count(outgoing.batch)])
            yield outgoing

    def _keep(
        self, batch: StoredBatch, letters: _Letters, positions: Sequence[int], target: Target
    ) -> Iterator[OutgoingBatch]:
        now = int(self._clock() * 1000)
        appended = [self._reasons(batch, letters, position) for position in positions]
        return fitting(
            target,
            self._source.partition,
            len(positions),
            lambda start, end: batch.cut(
                positions[start:end],
                appended=appended[start:end],
                without=dead_letters.PREFIXES,
                timestamp=now,
            ),
            self._source.of(batch, positions),
        )

    def _reasons(
        self, batch: StoredBatch, letters: _Letters, position: int
    ) -> list[tuple[str, bytes | None]]:
        replays = letters.origins[position].replays + 1
        headers = self._headers.headers(
            letters.verdicts[position], letters.origins[position], replays=replays
        )
        letter_id = dead_letters.read_id(batch.records.headers[position])
        if letter_id is not None:
            headers.append((dead_letters.ID, dead_letters.next_id(letter_id, replays)))
        return headers


def _record_count(batch: bytes | memoryview) -> int:
    return int.from_bytes(batch[COUNT_AT : COUNT_AT + 4])


def _returning(origin: Origin) -> list[tuple[str, bytes | None]]:
    """Return the headers that a record has which returns, besides its own."""
    return [
        (dead_letters.REPLAYS, b"%d" % (origin.replays + 1)),
        (dead_letters.TIMESTAMP, b"%d" % origin.timestamp),
    ]
