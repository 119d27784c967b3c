"""Judges rows: each record as if it had been sent alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.engine.columns import Columns
from penstock.engine.verdict import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.evaluation import Evaluator
    from penstock.jobs.rows.records import RecordRow

_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 32 * 2**20


class JudgedRow(NamedTuple):
    """A record and the verdict on it.

    Attributes:
        row: The record as it was.
        key: Its key, as interceptors left it.
        value: Its value, as interceptors left it.
    """

    row: RecordRow
    verdict: PolicyVerdict
    key: bytes | None
    value: bytes | None


def runs(rows: Iterable[RecordRow]) -> Iterator[Sequence[RecordRow]]:
    """Cut rows into runs of consecutive records of one partition; their bytes are bounded."""
    run: list[RecordRow] = []
    size = 0
    for row in rows:
        is_same = not run or (row.topic, row.partition) == (run[0].topic, run[0].partition)
        if not is_same or len(run) >= _ROWS_MAX or size >= _BYTES_MAX:
            yield run
            run, size = [], 0
        run.append(row)
        size += row.size
    if run:
        yield run


def judge_rows(rows: Iterable[RecordRow], evaluator: Evaluator) -> Iterator[JudgedRow]:
    """Judge rows in their order.

    Raises:
        PostponedError: A policy cannot decide, even after a while.
    """
    for run in runs(rows):
        keys, values = [row.key for row in run], [row.value for row in run]
        timestamps = [row.known_timestamp for row in run]
        columns = Columns(len(run), timestamps, keys, values, [row.headers for row in run])
        run_verdicts = evaluator.judge_records(run[0].topic, run[0].known_partition, columns)
        verdicts = dict(run_verdicts.verdicts)
        new_keys, new_values = run_verdicts.replaced or (keys, values)
        for index, (row, key, value) in enumerate(zip(run, new_keys, new_values, strict=True)):
            yield JudgedRow(row, verdicts.get(index, ACCEPTED), key, value)
