"""The decision of a job to commit: a small text, which is committed in a separate transaction.

A job writes in batches, each by many tasks with separate transactions, which are prepared and
left open (`penstock.kafka.client.writing.prepared`). When all are prepared, the job's driver
decides, and commits them. The decision names them, so after a crash two cases can be distinguished:
without a decision no part of the batch was committed, and it is written again; with it, the
transactions that it names are committed, and nothing is written again.

There is one run of a job at a time: a run claims the job before its first task writes. It fences
the run before, which can decide nothing from then on, even if it was only slow.

Decision and claim are the committed offset of the group `penstock-JOB`, and its text.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import time
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.kafka.client.positions import Position, peek_positions, read_positions
from penstock.kafka.client.protocol.write_errors import FencedError, UnknownOutcomeError, WriteError
from penstock.kafka.client.writing.limits import WriterLimits
from penstock.kafka.client.writing.prepared import Prepared, abort_all, commit_prepared, not_open
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.kafka.client.connections.connection import Connection
    from penstock.kafka.client.positions import PositionTask

_FORMER_MAX: Final = 20
_TEXT_MAX: Final = 4000
"""Brokers take 4,096 bytes: `offset.metadata.max.bytes`."""
_WRITER: Final = ":w:"
_ATTEMPTS: Final = 40
_PAUSE_S: Final = 0.1
_NO_BATCH: Final = -1


class TakenOverError(FencedError):
    """A later run of the job has claimed it."""


class TooManyTasksError(WriteError):
    """The decision is larger than the text that brokers keep with an offset."""


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
    """

    run: str = ""
    former: tuple[str, ...] = ()
    batch: BatchId = BatchId("", _NO_BATCH)
    prepared: tuple[Prepared, ...] = ()

    def covers(self, batch: BatchId) -> bool:
        """Return whether a batch was decided: it is not written again."""
        return batch.query == self.batch.query and batch.number <= self.batch.number


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

    def transactional_id(self, partition: int, attempt: int) -> str:
        """Return the id of the transactions of an attempt at a task.

        Attempts of a task have different ids: a second attempt, of speculation, does not fence
        the first.

        Args:
            partition: The number of the task.
            attempt: The number of the attempt.
        """
        return f"{self.prefix}{partition}:{attempt}"

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
                with self._writer() as writer:
                    decision = self._decoded(writer.position)
                    if decision.run == run or run in decision.former:
                        continue
                    self._finish(decision.prepared)
                    abort_all(self._connection, self.prefix)
                    former = (*decision.former, decision.run)[-_FORMER_MAX:] if decision.run else ()
                    new_decision = decision._replace(run=run, former=former)
                    writer.commit(self._encoded(new_decision))
                    return new_decision
            except (FencedError, UnknownOutcomeError):  # another task of the run claims it, too
                time.sleep(_PAUSE_S * random.uniform(1, 2 + attempt))  # noqa: S311 - no secret
        raise self._taken_over()

    def decide(self, run: str, batch: BatchId, prepared: Sequence[Prepared]) -> None:
        """Decide that transactions are committed.

        Args:
            run: The run that has claimed the job; or the first run.
            prepared: All transactions of the batch.

        Raises:
            TakenOverError: Another run has claimed the job, or decided: nothing was decided.
            TooManyTasksError: There are too many transactions: nothing was decided.
            UnknownOutcomeError: It is not known whether it was decided.
            ClientError: The cluster does not respond in time, or denies it.
        """
        new_decision = Decision(run, (), batch, tuple(prepared))
        unknown: UnknownOutcomeError | None = None
        for _ in range(_ATTEMPTS):
            with self._writer() as writer:
                current_decision = self._decoded(writer.position)
                if current_decision.run not in {"", run}:
                    raise self._taken_over()
                if current_decision.covers(batch):
                    if current_decision.prepared != new_decision.prepared:
                        raise self._taken_over()
                    return
                try:
                    writer.commit(
                        self._encoded(new_decision._replace(former=current_decision.former))
                    )
                    return
                except UnknownOutcomeError as error:
                    unknown = error
        raise unknown or self._taken_over()

    def _finish(self, prepared: Sequence[Prepared]) -> None:
        ended = not_open(self._connection, prepared)
        for transaction in prepared:
            if transaction not in ended:
                commit_prepared(self._connection, transaction)

    def _writer(self) -> TransactionalWriter:
        return TransactionalWriter(self._connection, self._task, WriterLimits())

    @property
    def prefix(self) -> str:
        """The prefix of the ids of the job's tasks."""
        return f"{self._task.group}{_WRITER}"

    def _taken_over(self) -> TakenOverError:
        return TakenOverError(f"job {self._task.job}: a later run of it has taken over")

    def _encoded(self, decision: Decision) -> Position:
        text = json.dumps(
            {
                "run": decision.run,
                "former": decision.former,
                "query": decision.batch.query,
                "batch": decision.batch.number,
                "tasks": self._packed(decision.prepared),
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
                self._unpacked(fields["tasks"]),
            )
        except (ValueError, KeyError, TypeError, struct.error, zlib.error):
            raise WriteError(
                f"group {self._task.group}: its offset was not committed by a writing job; name "
                "another job"
            ) from None

    def _packed(self, prepared: Sequence[Prepared]) -> str:
        """Return transactions as a text: columns of differences, which hardly take any room."""
        rows = [
            (
                *map(int, transaction.transactional_id.rsplit(":", 2)[1:]),
                transaction.producer_id,
                transaction.epoch,
            )
            for transaction in prepared
        ]
        columns = [_differences(column) for column in zip(*rows, strict=True)]
        data = struct.pack(
            f"<{4 * len(rows)}q", *(number for column in columns for number in column)
        )
        return base64.b85encode(zlib.compress(data, 9)).decode()

    def _unpacked(self, text: str) -> tuple[Prepared, ...]:
        data = zlib.decompress(base64.b85decode(text))
        numbers = struct.unpack(f"<{len(data) // 8}q", data)
        count = len(numbers) // 4
        columns = [_sums(numbers[count * column : count * (column + 1)]) for column in range(4)]
        return tuple(
            Prepared(self.transactional_id(partition, attempt), producer_id, epoch)
            for partition, attempt, producer_id, epoch in zip(*columns, strict=True)
        )


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
