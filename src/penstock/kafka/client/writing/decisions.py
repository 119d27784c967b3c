"""The decision of a job to commit: a small text, which is committed in a separate transaction.

A job writes in batches, each by many tasks with separate transactions, which are prepared and
left open (`penstock.kafka.client.writing.prepared`). When all are prepared, the job's driver
decides, and commits them. The decision names them, so after a crash two cases can be distinguished:
without a decision no part of the batch was committed, and it is written again; with it, the
transactions that it names are committed, and nothing is written again.

There is one run of a job at a time: a run claims the job before its first task writes. It fences
the run before, which can decide nothing from then on, even if it was only slow. Each claim has a
number, its turn, and the transactional ids of its tasks have it, too. So a task of an earlier run
that is only slow cannot abort a transaction of this run, which can be decided already.

Decision and claim are the committed offset of the group `penstock-JOB`, and its text.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import struct
import time
import zlib
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.positions import Position, peek_positions, read_positions
from penstock.kafka.client.protocol.write_errors import FencedError, UnknownOutcomeError, WriteError
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.prepared import (
    Prepared,
    abort_all,
    began_at,
    commit_prepared,
    is_open,
    not_open,
)
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import PositionTask

_FORMER_MAX: Final = 20
_TURNS: Final = 64
"""Turns are counted modulo this number: brokers keep a transactional id for a week."""
_TEXT_MAX: Final = 4000
"""Brokers take 4,096 bytes: `offset.metadata.max.bytes`."""
_WRITER: Final = ":w:"
_ATTEMPTS: Final = 40
_PAUSE_S: Final = 0.1
_ATTEMPTS_OF_STAGE: Final = 1000
"""More than Spark makes at a task of a stage."""
_DECIDES_WITHIN_S: Final = 30.0
"""After which time brokers abort a decision that was begun, at the latest."""
_NO_BATCH: Final = -1
_COLUMNS: Final = 4
"""Of a packed transaction: task, attempt, producer id, epoch."""


class TakenOverError(FencedError):
    """A later run of the job has claimed it, or another attempt has written the batch."""


class TooManyTasksError(WriteError):
    """The decision is larger than the text that brokers keep with an offset."""


class NotOpenError(WriteError):
    """Transactions that were to be committed are not open any more, or not for long enough.

    Attributes:
        transactions: Which.
    """

    def __init__(self, job: str, transactions: Sequence[Prepared]) -> None:
        super().__init__(f"job {job}: {len(transactions)} transactions have ended too early")
        self.transactions = transactions


class BatchId(NamedTuple):
    """A batch of a job.

    Attributes:
        query: The id of the streaming query; empty for a job of one batch.
        number: Its number in the query.
    """

    query: str
    number: int


class Decision(NamedTuple):
    """The last decision.

    Attributes:
        run: The run that has claimed the job; empty for none.
        former: Runs that had claimed it before.
        batch: The last batch that was decided.
        prepared: Its transactions, which can be of an earlier claim.
        turn: The number of the claim.
    """

    run: str = ""
    former: tuple[str, ...] = ()
    batch: BatchId = BatchId("", _NO_BATCH)
    prepared: tuple[Prepared, ...] = ()
    turn: int = 0

    def covers(self, batch: BatchId) -> bool:
        """Return whether a batch was decided: it is not written again."""
        return batch.query == self.batch.query and batch.number <= self.batch.number

    @property
    def has_decided(self) -> bool:
        """Whether the run that has the claim has decided."""
        return bool(self.prepared) and self.prepared_turn == self.turn

    @property
    def prepared_turn(self) -> int:
        """The number of the claim that the transactions are of; 0 for no transactions."""
        return _numbers(self.prepared[0])[0] if self.prepared else 0


class Decisions:
    """The decisions of one job."""

    def __init__(self, connection: Connection, task: PositionTask) -> None:
        """Prepare; nothing is contacted.

        Args:
            connection: To the cluster.
            task: Names the job; its topic is the target.
        """
        self._connection = connection
        self._task = task

    def transactional_id(self, turn: int, partition: int, attempt: int) -> str:
        """Return the id of the transactions of an attempt at a task.

        Attempts of a task have different ids: a second attempt, of speculation, does not fence
        the first.

        Args:
            turn: The number of the claim of its run.
            partition: The number of the task.
            attempt: The number of the attempt.
        """
        return f"{self._prefix(turn)}{partition}:{attempt}"

    def free_id(self, claim: Decision, batch: BatchId, partition: int, attempt: int) -> str:
        """Return an id for the transaction of an attempt at a task, which begins it at once.

        It has no open transaction: if Spark repeats a stage, its attempts have the same numbers,
        and earlier attempts may still run, or have written what is to be committed.

        Args:
            claim: The decision when the run claimed the job.
            batch: The batch that is written.
            partition: The number of the task.
            attempt: The number of the attempt.

        Raises:
            TakenOverError: A later run has claimed the job, or the batch is decided.
            ClientError: A coordinator does not respond in time, or denies it.
        """
        ids = (
            self.transactional_id(claim.turn, partition, number)
            for number in count(attempt, _ATTEMPTS_OF_STAGE)
        )
        name = next(name for name in ids if not is_open(self._connection, name))
        # After that: an id of a decision can be free because its transaction was committed.
        current_decision = self.read()
        if current_decision.run != claim.run or current_decision.covers(batch):
            raise self._taken_over()
        return name

    def read(self) -> Decision:
        """Return the decision; wait for a decision that is being committed.

        Raises:
            ClientError: It cannot be read.
        """
        return self._read(read_positions)

    def _read(self, position_reader: Callable[..., Mapping[tuple[str, int], Position]]) -> Decision:
        task = self._task
        positions = position_reader(self._connection, task.group, {task.topic: [task.partition]})
        return self._decoded(positions.get((task.topic, task.partition)))

    def claim(self, run: str) -> Decision:
        """Let a run decide from now on, if it does not yet; return the decision before.

        What they had decided is committed, as far as it was not; their other open transactions
        are aborted.

        Args:
            run: The id of the run.

        Raises:
            TakenOverError: A later run has claimed the job.
            ClientError: The cluster does not respond in time, or denies it.
        """
        for attempt in range(_ATTEMPTS):
            # A run that was killed can be about to decide for long: it is fenced then.
            decision = self._read(peek_positions)
            if decision.run == run:
                return decision
            if run in decision.former:
                raise self._taken_over()
            try:
                new_decision = self._try_to_claim(run)
            except (FencedError, UnknownOutcomeError):  # another task of the run claims it, too
                time.sleep(_PAUSE_S * random.uniform(1, 2 + attempt))  # noqa: S311 - no secret
            else:
                if new_decision is not None:
                    self.abort_open(new_decision.turn - 1)
                    return new_decision
        raise self._taken_over()

    def _try_to_claim(self, run: str) -> Decision | None:
        """Claim the job; return None where the run has it, or had it."""
        with self._writer() as writer:
            decision = self._decoded(writer.position)
            if decision.run == run or run in decision.former:
                return None
            self._finish(decision.prepared)
            former = (*decision.former, decision.run)[-_FORMER_MAX:] if decision.run else ()
            turn = (decision.turn + 1) % _TURNS
            new_decision = decision._replace(run=run, former=former, turn=turn)
            writer.commit(self._encoded(new_decision))
            return new_decision

    def abort_open(self, turn: int) -> None:
        """Abort the open transactions of a claim, and of those before it.

        The claim must not be able to decide any more, or have decided: a transaction that is to be
        committed would be lost.

        Args:
            turn: The number of the claim.

        Raises:
            ClientError: A broker does not respond in time, or denies it.
        """
        turns = range(turn - _FORMER_MAX, turn + 1)
        abort_all(self._connection, tuple(self._prefix(number % _TURNS) for number in turns))

    def decide(
        self, run: str, batch: BatchId, prepared: Sequence[Prepared], timeout_s: float
    ) -> Decision:
        """Decide that transactions are committed; return the decision before.

        All of them are open at the decision: its transaction is short, and each of the others has
        at least as long.

        Args:
            run: The run that has claimed the job; or the first run.
            prepared: All transactions of the batch.
            timeout_s: After which time brokers abort them.

        Raises:
            NotOpenError: Some are not open any more, or not for long enough: nothing was decided.
            TakenOverError: Another run has claimed the job, or decided: nothing was decided.
            TooManyTasksError: There are too many transactions: nothing was decided.
            UnknownOutcomeError: It is not known whether it was decided.
            ClientError: The cluster does not respond in time, or denies it.
        """
        unknown: UnknownOutcomeError | None = None
        within_s = min(_DECIDES_WITHIN_S, timeout_s / 4)
        for _ in range(_ATTEMPTS):
            with self._writer(within_s) as writer:
                current_decision = self._decoded(writer.position)
                if current_decision.run not in {"", run}:
                    raise self._taken_over()
                if current_decision.covers(batch):
                    if current_decision.prepared != tuple(prepared):
                        raise self._taken_over()
                    return current_decision
                new_decision = current_decision._replace(
                    run=run, batch=batch, prepared=tuple(prepared)
                )
                try:
                    writer.commit(
                        self._encoded(new_decision), lambda: self._check_open(prepared, within_s)
                    )
                    return current_decision
                except UnknownOutcomeError as error:
                    unknown = error
        raise unknown or self._taken_over()

    def _check_open(self, prepared: Sequence[Prepared], within_s: float) -> None:
        began = began_at(self._connection, self._task.transactional_id)
        # Without its own transaction, it cannot decide either.
        deadline = began and began + dt.timedelta(seconds=within_s)
        if ended := not_open(self._connection, prepared, deadline):
            raise NotOpenError(self._task.job, ended)

    def _finish(self, prepared: Sequence[Prepared]) -> None:
        ended = not_open(self._connection, prepared)
        for transaction in prepared:
            if transaction not in ended:
                commit_prepared(self._connection, transaction)

    def _writer(self, timeout_s: float = _DECIDES_WITHIN_S) -> TransactionalWriter:
        limits = WriterLimits(transaction_timeout_s=timeout_s)
        return TransactionalWriter(self._connection, self._task, limits)

    def _prefix(self, turn: int) -> str:
        """Return how the transactional ids of the tasks of a claim begin."""
        return f"{self._task.group}{_WRITER}{turn}:"

    def _taken_over(self) -> TakenOverError:
        return TakenOverError(
            f"job {self._task.job}: a later run of it, or another attempt, has taken over"
        )

    def _encoded(self, decision: Decision) -> Position:
        text = json.dumps(
            {
                "run": decision.run,
                "former": decision.former,
                "query": decision.batch.query,
                "batch": decision.batch.number,
                "turn": decision.turn,
                "by": decision.prepared_turn,
                "tasks": _packed(decision.prepared),
            },
            separators=(",", ":"),
        )
        if len(text) > _TEXT_MAX:
            raise TooManyTasksError(
                f"job {self._task.job}: {len(decision.prepared)} tasks have written, too many to "
                "be committed together; write fewer partitions, such as with coalesce(200)"
            )
        return Position(decision.batch.number + 1, text)

    def _decoded(self, position: Position | None) -> Decision:
        if position is None:
            return Decision()
        try:
            fields = json.loads(position.metadata)
            return Decision(
                fields["run"],
                tuple(fields["former"]),
                BatchId(fields["query"], fields["batch"]),
                self._unpacked(fields["tasks"], fields.get("by", 0)),
                fields.get("turn", 0),
            )
        except (ValueError, KeyError, TypeError, struct.error, zlib.error):
            raise WriteError(
                f"group {self._task.group}: its offset was not committed by a writing job; name "
                "another job"
            ) from None

    def _unpacked(self, text: str, turn: int) -> tuple[Prepared, ...]:
        data = zlib.decompress(base64.b85decode(text))
        numbers = struct.unpack(f"<{len(data) // 8}q", data)
        length = len(numbers) // _COLUMNS
        columns = [
            _sums(numbers[length * column : length * (column + 1)]) for column in range(_COLUMNS)
        ]
        return tuple(
            Prepared(self.transactional_id(turn, partition, attempt), producer_id, epoch)
            for partition, attempt, producer_id, epoch in zip(*columns, strict=True)
        )


def _packed(prepared: Sequence[Prepared]) -> str:
    """Return transactions as a text: columns of differences, which hardly take any room."""
    rows = [
        (*_numbers(transaction)[1:], transaction.producer_id, transaction.epoch)
        for transaction in prepared
    ]
    columns = [_differences(column) for column in zip(*rows, strict=True)]
    data = struct.pack(
        f"<{_COLUMNS * len(rows)}q", *(number for column in columns for number in column)
    )
    return base64.b85encode(zlib.compress(data, 9)).decode()


def is_first_attempt(transaction: Prepared) -> bool:
    """Return whether no other attempt at the task can have an open transaction."""
    return not _numbers(transaction)[-1]


def _numbers(transaction: Prepared) -> tuple[int, ...]:
    """Return the turn, the task and the attempt of a transaction."""
    return tuple(map(int, transaction.transactional_id.rsplit(":", 3)[1:]))


def _differences(numbers: Sequence[int]) -> list[int]:
    return [
        number - previous_number
        for previous_number, number in zip((0, *numbers), numbers, strict=False)
    ]


def _sums(differences: Sequence[int]) -> list[int]:
    total, sums = 0, []
    for difference in differences:
        total += difference
        sums.append(total)
    return sums
