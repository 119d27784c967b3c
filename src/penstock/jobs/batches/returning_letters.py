"""Judges dead letters again: those that pass now return, the rest waits for the next repair."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from penstock.engine.columns import Columns
from penstock.engine.modes import dead_letters
from penstock.engine.modes.dead_letters import (
    NOWHERE,
    Attempts,
    LetterHeaders,
    PartialOrigin,
    format_of,
    is_letter,
    is_of_share_group,
    own_headers,
    prefixes_of,
    read_origin,
)
from penstock.engine.verdict import ACCEPTED, Outcome, PolicyVerdict
from penstock.jobs.batches.gathered_records import partition_for
from penstock.jobs.batches.letter_outcomes import (
    AGAIN,
    DOUBLE,
    OTHER,
    PARKED,
    REFUSED,
    RETURNED,
    sink_of,
)
from penstock.jobs.batches.refused_letters import RefusedLetters
from penstock.jobs.batches.targets import fitting, sources_of
from penstock.jobs.batches.timestamps import retimed, runs
from penstock.jobs.report.counts import reason_of
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.error_codes import MESSAGE_TOO_LARGE
from penstock.kafka.records.header import COUNT_AT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from penstock.jobs.batches.judge import BatchJudge
    from penstock.jobs.batches.letter_topics import LetterTopics
    from penstock.jobs.batches.originals import Original, Originals
    from penstock.jobs.batches.targets import OutgoingBatch, Target
    from penstock.jobs.report.counts import RecordCounts
    from penstock.kafka.client.protocol.write_errors import RefusedBatchError
    from penstock.kafka.records.stored import KeysAndValues
    from penstock.kafka.records.stored_batch import StoredBatch
    from penstock.policy import Header

LOOKS_BACK: Final = 10_000
"""How many offsets before a run are searched for letters that are repeated in it. A batch is
retried within minutes (`delivery.timeout.ms`), and most batches at once."""
_IDS_MAX: Final = 500_000
_NO_COPY: Final = (None, None)
SHARE_GROUP: Final = "share group"
"""Who refused a letter whose record is gone: in dead letters and in counted reasons."""


@dataclass(frozen=True)
class _Letters:
    """The dead letters of a batch.

    Attributes:
        origins: Where each first was.
        prefixes: How the names of those of its headers begin that its record has not.
        other_headers: Those that are its record's, too.
        originals: Records that were read where they are stored, by position.
        missing_records: The positions of letters without a record.
        timestamps: Of each, as it returns.
        numbers: The partition of each in which policies see it.
        keys: The key of each, after the interceptors.
        values: The value of each, after the interceptors.
        sinks: The destination of each.
    """

    origins: Sequence[PartialOrigin]
    prefixes: Sequence[tuple[str, ...]]
    other_headers: Sequence[Sequence[Header]]
    originals: Mapping[int, Original]
    missing_records: Collection[int]
    timestamps: Sequence[int]
    numbers: Sequence[int]
    verdicts: list[PolicyVerdict]
    keys: list[bytes | None]
    values: list[bytes | None]
    sinks: list[str]

    def of(self, *sinks: str) -> list[int]:
        """Return the positions of the letters that go to some sinks."""
        return [position for position, sink in enumerate(self.sinks) if sink in sinks]

    def own(self, position: int) -> Sequence[Header]:
        """Return the headers of a letter's record."""
        original = self.originals.get(position)
        return self.other_headers[position] if original is None else original.headers

    def restored(self, position: int) -> list[tuple[str, bytes | None]]:
        """Return the headers of a letter's record that the letter has not."""
        original = self.originals.get(position)
        return [] if original is None else [(key, value) for key, value in original.headers]


class Redrive:
    """Writes dead letters that are accepted now to the target, and the others where they wait.

    Letters of other topics stay where they are. A letter that returns has its original partition
    (modulo the target's number of partitions; if its headers do not say it, that of its key), its
    first timestamp, and of the headers of a dead letter only the number of attempts and that
    timestamp. A letter that is refused again is appended to the dead letters, or parked after
    `replays_max` attempts: with its bytes, the new reason, and the current time.

    Policies see records as they would return: in their first partition, with their first timestamp
    and without the headers of a dead letter. The record of a share group's letter is read where it
    is stored; if it is gone there, the copy in the letter is used, and a letter without a copy is
    refused.

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
        topics: LetterTopics,
        originals: Originals,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare for one partition of a dead letter topic.

        Args:
            judge: The policies of the target, with the repairing interceptor if there is any.
            topic: The dead letter topic.
            target: Where records return to.
            again: The dead letter topic itself: its end is appended to, after the range.
            parked: Where records are written that failed `replays_max` times.
            replays_max: See `parked`; where the topic has parked letters, see `Attempts`.
            topics: Whose letters return.
            originals: Reads the records of share groups' letters.
            clock: Returns seconds since the epoch.
        """
        self._judge = judge
        self._source = Partition(topic, partition)
        self._target = target
        self._again_target = again
        self._parked_target = parked
        self._attempts = Attempts.of(topic, replays_max)
        self._topics = topics
        self._originals = originals
        self._clock = clock
        self._headers = LetterHeaders()
        self._refusals = RefusedLetters(target.topic)
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

    def process(self, batch: StoredBatch, counts: RecordCounts) -> Iterator[OutgoingBatch]:
        """Return the batches to write for a batch; see `penstock.jobs.batches.task.BatchJob`."""
        if self._is_committing:
            self._is_committing = False
            self._refusals.forget_before(batch.offsets[0])
            self._refusals.forget_sent()
        letters = self._judged(batch)
        outgoing = list(self._returned(batch, letters))
        self._count(letters, counts)
        yield from outgoing
        yield from self._keep(batch, letters, letters.of(AGAIN, REFUSED), self._again_target)
        yield from self._keep(batch, letters, letters.of(PARKED), self._parked_target)

    def _count(self, letters: _Letters, counts: RecordCounts) -> None:
        outcomes: Counter[str] = Counter()
        for sink, verdict in zip(letters.sinks, letters.verdicts, strict=True):
            if sink == OTHER:
                continue
            outcomes[sink] += 1
            if sink != DOUBLE and verdict.outcome is not Outcome.ACCEPTED:
                counts.reasons.add(reason_of(self._target.topic, verdict))
        counts.add_outcomes(self._source, outcomes)

    def rest(self) -> Iterable[OutgoingBatch]:
        """Return nothing: nothing waits."""
        self._is_committing = True
        return ()

    def forget(self) -> None:
        """Forget batches without a commit: their transaction is lost."""
        self._is_committing = False
        self._refusals.forget_sent()

    def refuse(self, error: RefusedBatchError) -> bool:
        """Take note that a batch was refused; return False if it was not for the target."""
        return self._refusals.learn(error)

    def _judged(self, batch: StoredBatch) -> _Letters:
        letters = self._read(batch)
        self._judge_all(letters, set(letters.of(OTHER)))
        doubles = self._doubles(batch)
        for position, (verdict, origin) in enumerate(
            zip(letters.verdicts, letters.origins, strict=True)
        ):
            if letters.sinks[position] == OTHER:
                continue
            letters.sinks[position] = (
                DOUBLE
                if position in doubles
                else sink_of(verdict.outcome, origin.replays, self._attempts)
            )
        if self._refusals:
            for position in letters.of(RETURNED):
                why = self._refusals.verdict(batch.offsets[position])
                if why is not None:
                    self._stays(letters, position, why)
        return letters

    def _read(self, batch: StoredBatch) -> _Letters:
        """Return the letters of a batch with their records, not judged."""
        records = batch.records
        headers, without = records.headers, list(map(prefixes_of, map(format_of, records.headers)))
        origins = [
            read_origin(own, NOWHERE._replace(timestamp=timestamp))
            for own, timestamp in zip(headers, records.timestamps, strict=True)
        ]
        sinks = [
            RETURNED if is_letter(own) and origin.topic in self._topics else OTHER
            for own, origin in zip(headers, origins, strict=True)
        ]
        keys, values = list(records.keys), list(records.values)
        originals = self._read_originals(batch, origins, sinks)
        for position, original in originals.items():
            keys[position], values[position] = original.key, original.value
            origins[position] = _with_times(origins[position], original)
            originals[position] = original._replace(headers=own_headers(original.headers))
        gone = {
            position
            for position, fields in enumerate(zip(sinks, keys, values, strict=True))
            if fields == (RETURNED, None, None)
            and position not in originals
            and is_of_share_group(headers[position])
        }
        verdict = _gone(self._target.topic) if gone else ACCEPTED
        return _Letters(
            origins,
            without,
            list(map(own_headers, headers, without)),
            originals,
            gone,
            [origin.timestamp or 0 for origin in origins],
            list(map(self._number, origins, keys, batch.offsets)),
            [verdict if position in gone else ACCEPTED for position in range(len(records))],
            keys,
            values,
            sinks,
        )

    def _number(self, origin: PartialOrigin, key: bytes | None, offset: int) -> int:
        """Return the partition in which policies see a record, whose letter is at an offset."""
        if origin.partition is not None:
            return origin.partition
        return partition_for(None, key, spread=offset, partitions=self._target.partitions)

    def _read_originals(
        self, batch: StoredBatch, origins: Sequence[PartialOrigin], sinks: Sequence[str]
    ) -> dict[int, Original]:
        """Return the records of share groups' letters, as far as they are still stored.

        A record that differs from the copy in a letter is another: its topic was created again.
        """
        headers, keys, values = batch.records.headers, batch.records.keys, batch.records.values
        offsets_by_partition: dict[tuple[str, int], dict[int, int]] = {}
        for position, (topic, partition, offset, *_) in enumerate(origins):
            if sinks[position] == OTHER or not is_of_share_group(headers[position]):
                continue
            if topic is not None and partition is not None and offset is not None:
                offsets_by_partition.setdefault((topic, partition), {})[position] = offset
        originals: dict[int, Original] = {}
        for (topic, partition), places in offsets_by_partition.items():
            records = self._originals(topic, partition, sorted(places.values()))
            for position, offset in places.items():
                copy = keys[position], values[position]
                if offset in records and copy in {_NO_COPY, records[offset][1:3]}:
                    originals[position] = records[offset]
        return originals

    def _judge_all(self, letters: _Letters, left_out: Collection[int]) -> None:
        """Judge letters as they would return; those that are gone have a verdict."""
        candidate_positions = [
            position
            for position in range(len(letters.origins))
            if position not in left_out and position not in letters.missing_records
        ]
        columns = Columns(
            len(letters.origins),
            letters.timestamps,
            tuple(letters.keys),
            tuple(letters.values),
            [tuple(letters.own(position)) for position in range(len(letters.origins))],
        )
        for partition, run in groupby(candidate_positions, key=letters.numbers.__getitem__):
            positions = list(run)
            run_verdicts = self._judge.verdicts(partition, columns.pick(positions))
            for index, verdict in run_verdicts.verdicts:
                letters.verdicts[positions[index]] = verdict
            if run_verdicts.replaced is not None:
                for position, key, value in zip(positions, *run_verdicts.replaced, strict=True):
                    letters.keys[position], letters.values[position] = key, value

    def _stays(self, letters: _Letters, position: int, verdict: PolicyVerdict) -> None:
        """Keep a letter that the target's broker refuses."""
        letters.verdicts[position] = verdict
        is_last = letters.origins[position].replays + 1 >= self._attempts.maximum
        letters.sinks[position] = PARKED if is_last else REFUSED

    def _returned(self, batch: StoredBatch, letters: _Letters) -> Iterator[OutgoingBatch]:
        """Return the letters that return; keep those that are too large for the target."""
        returned: dict[int, list[int]] = {}
        for position in letters.of(RETURNED):
            number = letters.numbers[position] % self._target.partitions
            returned.setdefault(number, []).append(position)
        for number, positions in sorted(returned.items()):
            for run in runs(positions, letters.timestamps, letters.other_headers, letters.prefixes):
                for some in self._refusals.halves(run, batch.offsets):
                    yield from self._return(batch, letters, some, number)

    def _return(
        self, batch: StoredBatch, letters: _Letters, positions: Sequence[int], partition: int
    ) -> Iterator[OutgoingBatch]:
        offsets = [batch.offsets[position] for position in positions]

        def too_large(index: int) -> None:
            verdict = self._refusals.refuse(offsets[index], MESSAGE_TOO_LARGE)
            self._stays(letters, positions[index], verdict)

        for outgoing in fitting(
            self._target,
            partition,
            len(positions),
            lambda start, end: retimed(
                batch,
                positions[start:end],
                letters.timestamps,
                letters.other_headers,
                (letters.keys, letters.values),
                [
                    [
                        *letters.restored(position),
                        *dead_letters.returning_headers(letters.origins[position]),
                    ]
                    for position in positions[start:end]
                ],
                letters.prefixes[positions[0]],
            ),
            sources_of(self._source, batch, positions),
            too_large=too_large,
        ):
            first = offsets.index(outgoing.source.offset)
            self._refusals.send(offsets[first : first + _record_count(outgoing.batch)])
            yield outgoing

    def _keep(
        self, batch: StoredBatch, letters: _Letters, positions: Sequence[int], target: Target
    ) -> Iterator[OutgoingBatch]:
        replaced = _with_originals(batch, letters.originals)
        for without, run in groupby(positions, key=letters.prefixes.__getitem__):
            yield from self._keep_run(batch, letters, list(run), target, without, replaced)

    def _keep_run(
        self,
        batch: StoredBatch,
        letters: _Letters,
        positions: Sequence[int],
        target: Target,
        without: tuple[str, ...],
        replaced: KeysAndValues | None,
    ) -> Iterator[OutgoingBatch]:
        now = int(self._clock() * 1000)
        appended = [self._reasons(batch, letters, position) for position in positions]
        return fitting(
            target,
            self._source.number,
            len(positions),
            lambda start, end: batch.cut(
                positions[start:end],
                replaced=replaced,
                appended=appended[start:end],
                without=without,
                timestamp=now,
            ),
            sources_of(self._source, batch, positions),
        )

    def _reasons(
        self, batch: StoredBatch, letters: _Letters, position: int
    ) -> list[tuple[str, bytes | None]]:
        replays, headers = letters.origins[position].replays + 1, batch.records.headers[position]
        reasons = letters.restored(position) + self._headers.headers(
            letters.verdicts[position], letters.origins[position], replays=replays
        )
        if position in letters.missing_records:
            # It stays a letter without a record.
            reasons.append((dead_letters.GROUP, dict(headers)[dead_letters.GROUP]))
        letter_id = dead_letters.read_id(headers)
        if letter_id is not None:
            reasons.append((dead_letters.ID, dead_letters.next_id(letter_id, replays)))
        return [*reasons, *dead_letters.of_plan(self._judge.digest)]


def _gone(topic: str) -> PolicyVerdict:
    message = f"topic {topic}: the letter has no copy of its record, which is no longer stored"
    code = int(ErrorCode.offset_out_of_range)
    return PolicyVerdict(outcome=Outcome.FAILED, policy=SHARE_GROUP, code=code, message=message)


def _with_times(origin: PartialOrigin, original: Original) -> PartialOrigin:
    """Return where a record first was, which says itself when that was, and how often it came."""
    record_origin = read_origin(original.headers, origin._replace(timestamp=original.timestamp))
    return origin._replace(timestamp=record_origin.timestamp, replays=record_origin.replays)


def _with_originals(batch: StoredBatch, originals: Mapping[int, Original]) -> KeysAndValues | None:
    """Return the keys and values of a batch with those of records that were read elsewhere."""
    if not originals:
        return None
    keys, values = list(batch.records.keys), list(batch.records.values)
    for position, original in originals.items():
        keys[position], values[position] = original.key, original.value
    return keys, values


def _record_count(batch: bytes | memoryview) -> int:
    return int.from_bytes(batch[COUNT_AT : COUNT_AT + 4])
