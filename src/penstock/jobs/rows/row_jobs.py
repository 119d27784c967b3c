"""`split`, `redact` and `redrive` over rows; each record is returned with its sink.

Spark runs `redrive` in its tasks as well (`penstock.spark.jobs.redrive`).

::

    counts = Counter()
    sinks.write(counted(split_rows(rows, evaluator), counts))
"""

from __future__ import annotations

from collections import deque
from itertools import groupby, starmap
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.modes.dead_letters import (
    NOWHERE,
    PartialOrigin,
    format_of,
    is_letter,
    own_headers,
    prefixes_of,
    read_origin,
    returning_headers,
)
from penstock.engine.verdict import REJECTED, Outcome
from penstock.jobs.batches.letter_outcomes import DROPPED, RETURNED, sink_of
from penstock.jobs.batches.letter_topics import FoundLetters, LetterCounter
from penstock.jobs.report.counts import reason_of
from penstock.jobs.rows.judged_rows import judge_rows
from penstock.jobs.rows.letters import DeadLetters, place_of
from penstock.jobs.tasks.writing_task import ACCEPTED
from penstock.jobs.tasks.writing_task import REJECTED as LETTERS
from penstock.policy import Header

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from penstock.engine.modes.dead_letters import Attempts
    from penstock.jobs.batches.letter_topics import LetterTopics
    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.report.bounded_counter import BoundedCounter
    from penstock.jobs.report.counts import Reason
    from penstock.jobs.rows.judged_rows import JudgedRow
    from penstock.jobs.rows.records import RecordRow


class OutgoingRow(NamedTuple):
    """A record, and what becomes of it.

    Attributes:
        sink: The name of the sink that it is written to; None if it is left out.
        outcome: What it is counted as; None for a letter of another topic, which is not judged.
        row: The record as it is written.
    """

    sink: str | None
    outcome: str | None
    row: RecordRow


def counted(rows: Iterable[OutgoingRow], counts: Counter[str]) -> Iterator[tuple[str, RecordRow]]:
    """Count rows by outcome; return those that are written, each with the name of its sink."""
    for sink, outcome, row in rows:
        if outcome is not None:
            counts[outcome] += 1
        if sink is not None:
            yield sink, row


def split_rows(
    rows: Iterable[RecordRow],
    evaluator: Evaluator,
    reasons: BoundedCounter[Reason] | None = None,
) -> Iterator[OutgoingRow]:
    """Return accepted records as interceptors left them, and the others as dead letters.

    What an interceptor dropped has no sink.

    Args:
        reasons: Counts why records are not accepted.

    Raises:
        PostponedError: A policy cannot decide, even after a while.
    """
    letters = DeadLetters()
    for result in judge_rows(rows, evaluator):
        outcome = result.verdict.outcome
        if reasons is not None and outcome is not Outcome.ACCEPTED:
            reasons.add(reason_of(result.row.topic or "", result.verdict))
        if outcome is Outcome.ACCEPTED:
            row = result.row._replace(key=result.key, value=result.value)
            yield OutgoingRow(ACCEPTED, outcome.value, row)
        elif outcome in REJECTED:
            digest = evaluator.digest(result.row.topic)
            letter = letters.first(result.row, result.verdict, digest)
            yield OutgoingRow(LETTERS, outcome.value, letter)
        else:
            yield OutgoingRow(None, outcome.value, result.row)


def redact_rows(
    rows: Iterable[RecordRow],
    evaluator: Evaluator,
    reasons: BoundedCounter[Reason] | None = None,
) -> Iterator[OutgoingRow]:
    """Return records as interceptors left them; what they dropped or failed on has no sink.

    The arguments and errors are those of `split_rows`.
    """
    for outgoing in split_rows(rows, evaluator, reasons):
        yield outgoing if outgoing.sink == ACCEPTED else outgoing._replace(sink=None)


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
    *,
    target: str | None,
    topics: LetterTopics,
    others_to: str | None,
    attempts: Attempts,
) -> Iterator[OutgoingRow]:
    """Judge dead letters as they would return; return each with its sink.

    Args:
        letters: The dead letters, each of which names its topic.
        target: The topic to which accepted letters return, whose policies judge; None if each
            record is judged by the policies of its original topic.
        topics: Whose letters return.
        others_to: The sink of letters of other topics, where they stay as they are; None to leave
            them out.
        attempts: How often a record is judged again before it is parked.

    Returns:
        The letters; those that are judged are counted as `sink_of` names them.

    Raises:
        PostponedError: A policy cannot decide, even after a while.
    """

    def returns(letter: RecordRow) -> bool:
        return is_letter(letter.headers) and read_origin(letter.headers, NOWHERE).topic in topics

    for is_judged, run in groupby(letters, key=returns):
        if is_judged:
            yield from _judged_again(run, evaluator, target=target, attempts=attempts)
        elif others_to is not None:
            yield from (OutgoingRow(others_to, None, letter) for letter in run)


def _judged_again(
    letters: Iterable[RecordRow],
    evaluator: Evaluator,
    *,
    target: str | None,
    attempts: Attempts,
) -> Iterator[OutgoingRow]:
    new_letters = DeadLetters()
    pending_letters: deque[tuple[RecordRow, PartialOrigin]] = deque()

    def returning() -> Iterator[RecordRow]:
        for letter in letters:
            # Without a partition in its headers, its key selects one.
            place = place_of(letter)._replace(partition=None, offset=None)
            origin = read_origin(letter.headers, place)
            pending_letters.append((letter, origin))
            yield _as_it_was(letter, origin, target)

    for result in judge_rows(returning(), evaluator):
        letter, origin = pending_letters.popleft()
        sink = sink_of(result.verdict.outcome, origin.replays, attempts)
        if sink == RETURNED:
            yield OutgoingRow(sink, sink, _returned(result, origin))
        elif sink == DROPPED:
            yield OutgoingRow(None, sink, result.row)
        else:
            digest = evaluator.digest(result.row.topic)
            yield OutgoingRow(sink, sink, new_letters.again(result, letter, origin, digest))


def _returned(result: JudgedRow, origin: PartialOrigin) -> RecordRow:
    """Return an accepted record as it returns to its topic."""
    headers = (*result.row.headers, *starmap(Header, returning_headers(origin)))
    return result.row._replace(key=result.key, value=result.value, headers=headers)


def _as_it_was(letter: RecordRow, origin: PartialOrigin, target: str | None) -> RecordRow:
    """Return a letter as policies see it: where it was, without the headers of a dead letter."""
    return letter._replace(
        topic=target or origin.topic,
        partition=origin.partition,
        timestamp=letter.timestamp if origin.timestamp is None else origin.timestamp,
        headers=own_headers(letter.headers, prefixes_of(format_of(letter.headers))),
    )
