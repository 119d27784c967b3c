"""The second phase of `df.write.format("penstock")`: the driver decides, and commits."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.protocol.write_errors import AbortedError, FencedError
from penstock.kafka.client.writing.decisions import NotOpenError, is_first_attempt
from penstock.kafka.client.writing.prepared import abort_prepared, commit_prepared
from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.penstock_format.source_order import check_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.kafka.client.writing.decisions import BatchId, Decision, Decisions
    from penstock.kafka.client.writing.prepared import Prepared
    from penstock.spark.sink.penstock_format.task import Attempt, AttemptResult, SinkTask

_NAMED_MAX: Final = 3


class LostTransactionsError(SparkError):
    """Transactions of tasks were aborted before they were committed."""


def commit(task: SinkTask, results: Sequence[AttemptResult]) -> None:
    """Commit the transactions of a batch: all of them, or none.

    Args:
        task: What the tasks did.
        results: What each task did; of the same batch.

    Raises:
        OrderLostError: Several tasks have written records of the same partition.
        LostTransactionsError: A transaction was aborted; before the decision nothing is written.
        TakenOverError: A later run of the job has taken over.
        ClientError: The cluster does not respond in time, or denies it.
    """
    if not results:
        return
    connection = task.access.connect()
    first = results[0].attempt
    decisions = task.decisions(first.job, connection)
    prepared = [result.prepared for result in results if result.prepared is not None]
    if any(result.was_decided for result in results):
        for transaction in prepared:
            abort_prepared(connection, transaction)
        _finish(task, decisions.read().prepared, first.batch)
        return
    if not prepared:
        return
    check_together(task.accepted.topic, (result.read for result in results))
    earlier_decision = _decide(task, decisions, first, prepared)
    _finish(task, prepared, first.batch)
    has_others = any(result.attempt.number for result in results)
    has_others |= not all(map(is_first_attempt, prepared))
    if has_others or not earlier_decision.has_decided:
        # Readers would wait for those of attempts that failed or were too late; and for those of
        # earlier runs, which are still open if a task was killed when it had claimed the job.
        # All is written: without a response, brokers abort them when their time is over.
        with contextlib.suppress(ClientError):
            decisions.abort_open(earlier_decision.turn)


def _decide(
    task: SinkTask, decisions: Decisions, first: Attempt, prepared: Sequence[Prepared]
) -> Decision:
    """Decide that transactions are committed; return the decision before."""
    timeout_s = task.transaction_timeout_s
    try:
        return decisions.decide(first.run, first.batch, prepared, timeout_s)
    except NotOpenError as error:
        raise LostTransactionsError(
            f"topic {task.accepted.topic}: nothing of the batch is written: "
            f"{_named(error.transactions)} ended before all tasks had written; the transaction "
            f"timeout is {timeout_s:g} s (option kafka.transaction.timeout.ms, and the brokers' "
            "transaction.max.timeout.ms)"
        ) from None


def abort(task: SinkTask, results: Sequence[AttemptResult]) -> None:
    """Abort the transactions of a batch, unless it was decided.

    Those that tasks left open that failed are aborted, too, if no later run has the job.

    Args:
        task: What the tasks did.
        results: What each task did that ended well.

    Raises:
        ClientError: The cluster does not respond in time, or denies it.
    """
    if not results:
        return
    connection, first = task.access.connect(), results[0].attempt
    decisions = task.decisions(first.job, connection)
    decided = decisions.read()
    if decided.covers(first.batch):
        return
    for result in results:
        if result.prepared is not None:
            abort_prepared(connection, result.prepared)
    if decided.run == first.run:
        decisions.abort_open(decided.turn)


def _finish(task: SinkTask, prepared: Sequence[Prepared], batch: BatchId) -> None:
    connection, lost_transactions = task.access.connect(), []
    for transaction in prepared:
        try:
            commit_prepared(connection, transaction)
        except (FencedError, AbortedError):
            lost_transactions.append(transaction)
    if lost_transactions:
        raise LostTransactionsError(
            f"topic {task.accepted.topic}: batch {batch.number} was to be committed, and brokers "
            f"had aborted {_named(lost_transactions)} of {len(prepared)} before (their time was "
            "over): what these wrote is missing, and the others' records are there"
        )


def _named(some: Sequence[Prepared]) -> str:
    names = ", ".join(transaction.transactional_id for transaction in some[:_NAMED_MAX])
    more = len(some) - _NAMED_MAX
    return f"the transactions {names}" + (f" and {more:,} more" if more > 0 else "")
