"""`split`, `redact` and `redrive` over rows; each record is returned with its sink.

::

    counts = Counter()
    sinks.write(split_rows(rows, evaluator, counts))
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.engine.modes.dead_letters import (
    NOWHERE,
    REPLAYS,
    TIMESTAMP,
    PartialOrigin,
    ReasonHeaders,
    format_of,
    is_letter,
    own_headers,
    prefixes_of,
    read_origin,
)
from penstock.engine.verdict import REJECTED, Outcome
from penstock.jobs.batches.letter_outcomes import DROPPED, RETURNED, sink_of
from penstock.jobs.batches.letter_topics import FoundLetters, LetterCounter
from penstock.jobs.rows.judged_rows import judge_rows
from penstock.jobs.tasks.writing_task import ACCEPTED
from penstock.jobs.tasks.writing_task import REJECTED as LETTERS
from penstock.policy import Header

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from penstock.engine.modes.dead_letters import Attempts
    from penstock.jobs.batches.letter_topics import LetterTopics
    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.rows.judged_rows import JudgedRow
    from penstock.jobs.rows.records import RecordRow

    OutgoingRow = tuple[str, RecordRow]
    """A sink's name, and the record to write."""


def split_rows(
    rows: Iterable[RecordRow], evaluator: Evaluator, counts: Counter[str]
) -> Iterator[OutgoingRow]:
    """Return accepted records as interceptors left them, and the others as dead letters.

    What an interceptor dropped is left out.

    Args:
        counts: Counts the records by outcome.

    Raises:
        PostponedError: A policy cannot decide, even after a while.
    """
    letters = _Letters()
    for result in judge_rows(rows, evaluator):
        outcome = result.verdict.outcome
        counts[outcome.value] += 1
        if outcome is Outcome.ACCEPTED:
            yield ACCEPTED, result.row._replace(key=result.key, value=result.value)
        elif outcome in REJECTED:
            yield LETTERS, letters.first(result)


def redact_rows(
    rows: Iterable[RecordRow], evaluator: Evaluator, counts: Counter[str]
) -> Iterator[OutgoingRow]:
    """Return records as interceptors left them, without those that they dropped or failed on.

    The arguments and errors are those of `split_rows`.
    """
    for sink, row in split_rows(rows, evaluator, counts):
        if sink == ACCEPTED:
            yield sink, row


def find_letters(rows: Iterable[RecordRow], topics: LetterTopics) -> FoundLetters:
    """Return whose letters are there.

    Args:
        rows: The records of a place of dead letters.
        topics: Whose letters return.
    """
    counter = LetterCounter(topics)
    for row in rows:
        place = f"{row.topic}-{row.partition}, offset {row.offset}"
        counter.add(row.headers, place, is_empty=row.key is None and row.value is None)
    return counter.found


def redrive_rows(
    letters: Iterable[RecordRow],
    evaluator: Evaluator,
    counts: Counter[str],
    *,
    target: str | None,
    topics: LetterTopics,
    others_to: str | None,
    attempts: Attempts,
) -> Iterator[OutgoingRow]:
    """Judge dead letters as they would return; return each with its sink.

    Args:
        letters: The dead letters, each of which names its topic.
        counts: Counts the letters by sink, and those that an interceptor dropped.
        target: The topic to which accepted letters return, whose policies judge; None if each
            record is judged by the policies of its original topic.
        topics: Whose letters return.
        others_to: The sink of letters of other topics, where they stay as they are; None to leave
            them out.
        attempts: How often a record is judged again before it is parked.

    Raises:
        PostponedError: A policy cannot decide, even after a while.
    """

    def returns(letter: RecordRow) -> bool:
        return is_letter(letter.headers) and read_origin(letter.headers, NOWHERE).topic in topics

    for is_judged, run in groupby(letters, key=returns):
        if is_judged:
            yield from _judged_again(run, evaluator, counts, target=target, attempts=attempts)
        elif others_to is not None:
            yield from ((others_to, letter) for letter in run)


def _judged_again(
    letters: Iterable[RecordRow],
    evaluator: Evaluator,
    counts: Counter[str],
    *,
    target: str | None,
    attempts: Attempts,
) -> Iterator[OutgoingRow]:
    new_letters = _Letters()
    pending_letters: deque[tuple[RecordRow, PartialOrigin]] = deque()

    def returning() -> Iterator[RecordRow]:
        for letter in letters:
            # Without a partition in its headers, its key selects one.
            place = _place_of(letter)._replace(partition=None, offset=None)
            origin = read_origin(letter.headers, place)
            pending_letters.append((letter, origin))
            yield _as_it_was(letter, origin, target)

    for result in judge_rows(returning(), evaluator):
        letter, origin = pending_letters.popleft()
        sink = sink_of(result.verdict.outcome, origin.replays, attempts)
        counts[sink] += 1
        if sink == RETURNED:
            time = None if origin.timestamp is None else b"%d" % origin.timestamp
            more = Header(REPLAYS, b"%d" % (origin.replays + 1)), Header(TIMESTAMP, time)
            headers = (*result.row.headers, *more)
            yield sink, result.row._replace(key=result.key, value=result.value, headers=headers)
        elif sink != DROPPED:
            yield sink, new_letters.again(result, letter, origin)


def _place_of(row: RecordRow) -> PartialOrigin:
    return PartialOrigin(row.topic, row.partition, row.offset, row.timestamp)


def _as_it_was(letter: RecordRow, origin: PartialOrigin, target: str | None) -> RecordRow:
    """Return a letter as policies see it: where it was, without the headers of a dead letter."""
    return letter._replace(
        topic=target or origin.topic,
        partition=origin.partition,
        timestamp=letter.timestamp if origin.timestamp is None else origin.timestamp,
        headers=own_headers(letter.headers, prefixes_of(format_of(letter.headers))),
    )


class _Letters:
    """Makes dead letters."""

    def __init__(self) -> None:
        self._reasons = ReasonHeaders()

    def first(self, result: JudgedRow) -> RecordRow:
        """Return a record as a dead letter; one that is a letter keeps its first place."""
        row = result.row
        more = self._reasons.of_record(result.verdict, row.headers, _place_of(row))
        return row._replace(headers=(*own_headers(row.headers), *(Header(*own) for own in more)))

    def again(self, result: JudgedRow, letter: RecordRow, origin: PartialOrigin) -> RecordRow:
        """Return a letter with the new reason, as its record was before interceptors."""
        more = self._reasons.headers(result.verdict, origin, replays=origin.replays + 1)
        headers = (*result.row.headers, *(Header(*own) for own in more))
        return result.row._replace(topic=letter.topic, partition=letter.partition, headers=headers)
