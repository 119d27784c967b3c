"""A streaming query that writes with `format("penstock")`, as Spark runs it, and its histories.

The sink is the real code: `StreamSink` and `BatchSink`, the tasks and the driver's two phases, down
to the requests. Spark is a model: it plans micro-batches in a checkpoint, tries tasks again,
starts second attempts, and after a crash repeats the last micro-batch with other tasks. Processes
of a driver that was killed may live on.
"""

import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext

from penstock.jobs.batches.targets import Target
from penstock.kafka.client.positions import Position
from penstock.spark.sink.penstock_format.commit import LostTransactionsError
from penstock.spark.sink.penstock_format.data_sink import BatchSink, StreamSink
from penstock.spark.sink.penstock_format.task import SinkTask
from tests.kafka.client.scripted import GROUP_FETCH, INIT
from tests.spark.sink.penstock_format.modelled_cluster import (
    DESCRIBE_TRANSACTIONS,
    Cluster,
    Transaction,
)
from tests.spark.sink.penstock_format.modelled_processes import (
    Fault,
    Process,
    Schedule,
    current_process,
)

TOPIC, JOB, QUERY = "out", "job", "query"
SOURCES, RECORDS, BATCHES = 2, 2, 2
"""Partitions that are read, records of each in a micro-batch, and micro-batches."""
_FAILURES_MAX, _STARTS_MAX, _STEPS_MAX = 4, 12, 20_000
_STEP_S = 0.001
TRANSACTION_TIMEOUT_S = 60.0


class HistoryError(AssertionError):
    """A record is missing, there twice or in the wrong place; or the query never ends."""


class History:
    """Decides what happens; here, nothing.

    Attributes:
        is_frame: Whether micro-batches are written with `foreachBatch`.
        batches: How many there are.
    """

    is_frame = False
    batches = BATCHES

    def pick(self, processes: Sequence[Process], others: int) -> int | None:
        """Return which of the next steps is done: that of a process, or another.

        None to wait for a process that sleeps, if there is any.
        """
        return 0

    def fault(self, process: Process) -> Fault:
        """Return what becomes of the next step of a process."""
        return Fault.NONE

    def kills_driver(self) -> bool:
        """Return whether Spark's driver is killed now."""
        return False

    def survives(self, process: Process) -> bool:
        """Return whether a process survives that Spark does not need any more."""
        return False

    def tasks(self) -> list[list[int]]:
        """Return the partitions that each task reads."""
        return [[source] for source in range(SOURCES)]

    def second_attempts(self) -> Sequence[int]:
        """Return the numbers of attempts at a task that are started besides the first."""
        return ()

    def pause_s(self) -> float:
        """Return how long it takes until the query is started again."""
        return 0.0


class _Access:
    """Connects the process that calls it."""

    def connect(self) -> Any:
        return current_process().connection


class _Context:
    """What Spark says to a task."""

    def __init__(self, run: str, batch: int, task: int, attempt: int) -> None:
        self._properties = {
            "sql.streaming.queryId": QUERY,
            "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": run,
        }
        self._task, self._attempt = task, attempt

    def partitionId(self) -> int:  # noqa: N802 - names of Spark
        return self._task

    def attemptNumber(self) -> int:  # noqa: N802
        return self._attempt

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return self._properties[name]


class World(Schedule):
    """The cluster, the processes, and the query over all of its starts."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.history = history
        self.now = 1000.0
        self.cluster = Cluster(lambda: self.now)
        self.cluster.on_expired = self._on_expired
        self.processes: list[Process] = []
        self.done = -1
        """The last micro-batch in Spark's checkpoint."""
        self.steps = 0
        self._driver: Driver | None = None
        self._beginning: Process | None = None
        self._with_id: set[Process] = set()
        self.trace: list[object] = []
        self.has_lost = False
        """Whether a transaction was decided, and aborted because its time was over."""
        access: Any = _Access()
        target = Target(TOPIC, 2, 1_000_000)
        self.task = SinkTask(
            access, None, target, UUID(int=7), None, transaction_timeout_s=TRANSACTION_TIMEOUT_S
        )
        self.decisions = self.task.decisions(JOB, object())  # type: ignore[arg-type]

    def end(self) -> str:
        """Run the query until it has written everything; return how it ended.

        Raises:
            HistoryError: It has not written each record once, or reports what is not so.
        """
        state = random.getstate()
        random.seed(0)  # pauses between retries are random
        try:
            return self._end()
        except HistoryError as wrong:
            raise HistoryError("\n".join(map(str, (wrong, *self.trace[-400:])))) from None
        finally:
            random.setstate(state)
            for process in self.processes:
                process.kill()

    def _end(self) -> str:
        for start in range(1, _STARTS_MAX):
            driver = self._driver = Driver(self, f"run-{start}")
            self.run()
            self.check()
            if self.done == self.history.batches - 1:
                self._driver = None
                self.run()
                self.check(is_end=True)
                return "written"
            if self.has_lost and isinstance(driver.error, LostTransactionsError):
                return "reported"
            self.now += self.history.pause_s()
        raise HistoryError(f"the query was started {_STARTS_MAX} times: {driver.error!r}")

    def next_process(self) -> Process | None:
        """Do steps of Spark and of the brokers until a process does one; return it.

        None at the end of a driver; afterwards, when nothing happens any more.
        """
        while True:
            driver = self._driver
            if driver is not None and driver.is_ended:
                return None
            if driver is not None and self.history.kills_driver():
                self.trace.append(f"{driver.run} is killed")
                driver.kill()
                return None
            live = self._live()
            ready = [process for process in live if process.wakes_at <= self.now]
            others = self._others()
            if ready or others:
                index = self.history.pick(ready, len(others))
                if index is None and self._wait_for_sleepers(live):
                    continue
                index = index or 0
                if index < len(ready):
                    return self._chosen_process(ready[index])
                others[index - len(ready)]()
            elif not self._wait(live):
                if driver is not None:
                    raise HistoryError(f"{driver.run} waits, and nothing happens any more")
                return None

    def _others(self) -> list[Callable[[], object]]:
        """Let a moment pass; return the steps of Spark and of the brokers."""
        self.steps += 1
        if self.steps > _STEPS_MAX:
            raise HistoryError(f"{_STEPS_MAX} steps, and no end")
        self.now += _STEP_S
        self.cluster.expire()
        driver = self._driver
        return [
            *([driver.step] if driver is not None and driver.is_ready() else ()),
            *(partial(self.cluster.mark, *marker) for marker in self.cluster.missing_markers()),
            *(partial(self._deliver, handle) for handle in self.cluster.delayed),
        ]

    def _chosen_process(self, process: Process) -> Process:
        process.fault = self.history.fault(process)
        self.trace.append((self.now, process.name, process.next_api, process.fault))
        if process.next_api == DESCRIBE_TRANSACTIONS:
            self._with_id.add(process)
        elif process.next_api not in {None, GROUP_FETCH, INIT}:
            self._with_id.discard(process)
        return process

    def _live(self) -> Sequence[Process]:
        """Return the processes that may do a step.

        A task that has found an id, and the job still its own, begins the transaction before any
        other process does a step: only that is not guarded against attempts with the same number
        in the same run, where Spark repeats a stage.
        """
        live = [each for each in self.processes if not (each.is_ended or each.is_killed)]
        run = "" if self._driver is None else f"{self._driver.run} "
        for process in live:
            is_beginning = process.next_api == INIT and process in self._with_id
            if is_beginning and process.name.startswith(run):
                self._beginning = process
        if self._beginning in live and self._beginning.next_api in {None, INIT}:
            return [self._beginning]
        self._beginning = None
        return live

    def _wait_for_sleepers(self, live: Sequence[Process]) -> bool:
        """Let time pass until a process wakes up; return whether any sleeps."""
        times = [process.wakes_at for process in live if process.wakes_at > self.now]
        self.now = min(times, default=self.now)
        return bool(times)

    def _wait(self, live: Sequence[Process]) -> bool:
        """Let time pass until a process or a broker has something to do."""
        times = [process.wakes_at for process in live]
        expiry = self.cluster.next_expiry()
        if expiry is not None:
            times.append(expiry)
        if not times:
            return False
        self.now = max(self.now, min(times))
        return True

    def _deliver(self, handle: Callable[[], Any]) -> None:
        self.trace.append("a delayed request arrives")
        self.cluster.delayed.remove(handle)
        handle()

    def launch(self, name: str, work: Callable[[], Any]) -> Process:
        """Start a process."""
        process = Process(name, self.cluster, self)
        self.processes.append(process)
        process.start(work)
        return process

    def _on_expired(self, transaction: Transaction) -> None:
        self.trace.append(f"{transaction.name} expires")
        names = {
            (prepared.transactional_id, prepared.epoch) for prepared in self._decided().prepared
        }
        self.has_lost |= (transaction.name, transaction.epoch) in names

    def _decided(self) -> Any:
        group = self.decisions._task.group
        text = self.cluster.decided(group, (TOPIC, 0))
        return self.decisions._decoded(Position(0, text) if text else None)

    # Checks

    def check(self, *, is_end: bool = False) -> None:
        """Check what readers see: nothing twice, whole batches in order, none that is not decided."""
        visible = list(self.cluster.visible(TOPIC))
        counts = Counter(value for _, value in visible)
        if twice := [value for value, count in counts.items() if count > 1]:
            raise HistoryError(f"twice: {twice}")
        for number in range(self.history.batches):
            self._check_batch(number, counts, is_whole=number <= self.done)
        for source in range(SOURCES):
            offsets = [int(value.split(b":")[1]) for _, value in visible if _of(value) == source]
            if offsets != sorted(offsets):
                raise HistoryError(f"partition {source} is not in order: {offsets}")
        if is_end and not self.cluster.is_readable_to_the_end(TOPIC):
            raise HistoryError("readers of committed records wait permanently")

    def _check_batch(self, number: int, counts: Counter[bytes], *, is_whole: bool) -> None:
        values = {value for source in range(SOURCES) for value in values_of(source, number)}
        missing = values - counts.keys()
        if is_whole and missing:
            raise HistoryError(f"batch {number} is done, and does not have {sorted(missing)}")
        if len(missing) < len(values) and self._decided().batch.number < number:
            raise HistoryError(f"batch {number} is not decided, and has {sorted(values - missing)}")


def _of(value: bytes) -> int:
    return int(value.split(b":")[0])


def values_of(source: int, batch: int) -> list[bytes]:
    """Return the values of a partition in a micro-batch."""
    return [b"%d:%d" % (source, batch * RECORDS + index) for index in range(RECORDS)]


def _rows(sources: Sequence[int], batch: int) -> Iterator[pa.RecordBatch]:
    for source in sources:
        current_process().stop()  # Spark reads
        yield _record_batch(source, batch)


@lru_cache
def _record_batch(source: int, batch: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array(["in"] * RECORDS),
            "partition": pa.array([source] * RECORDS, pa.int32()),
            "offset": pa.array(range(batch * RECORDS, (batch + 1) * RECORDS), pa.int64()),
            "value": pa.array(values_of(source, batch)),
        }
    )


class Driver:
    """Spark's driver, from a start of the query to its end."""

    def __init__(self, world: World, run: str) -> None:
        self.run = run
        self.is_ended = False
        self.error: Exception | None = None
        self._world = world
        self._processes: list[Process] = []
        self._condition: Callable[[], bool] = lambda: True
        self._steps = self._drive()

    def is_ready(self) -> bool:
        return not self.is_ended and self._condition()

    def step(self) -> None:
        """Do the next step."""
        try:
            self._condition = next(self._steps)
        except StopIteration:
            self.is_ended = True

    def kill(self) -> None:
        """End, with those of its processes that do not live on."""
        self.is_ended = True
        self._end(self._processes)

    def _end(self, processes: Sequence[Process]) -> None:
        for process in processes:
            if not process.is_ended and not self._world.history.survives(process):
                process.kill()

    def _launch(self, name: str, work: Callable[[], Any]) -> Process:
        process = self._world.launch(f"{self.run} {name}", work)
        self._processes.append(process)
        return process

    def _drive(self) -> Iterator[Callable[[], bool]]:
        while self._world.done < self._world.history.batches - 1:
            yield lambda: True
            number = self._world.done + 1
            yield from self._batch(number)
            if self.error is not None:
                self._end(self._processes)
                return
            yield lambda: True
            self._world.done = number
            self._world.trace.append(f"{self.run}: batch {number} is in the checkpoint")
            self._world.check()

    def _batch(self, number: int) -> Iterator[Callable[[], bool]]:
        world = self._world
        sink: Any = (
            BatchSink(world.task, JOB)
            if world.history.is_frame
            else StreamSink(world.task, JOB, None)  # type: ignore[arg-type]
        )
        arguments = () if world.history.is_frame else (number,)
        job = _Job(self, sink, number, world.history.tasks())
        yield from job.run()
        if job.error is None:
            commit = self._launch("commit", lambda: sink.commit(job.messages, *arguments))
            yield lambda: commit.is_ended
            if commit.is_killed:
                self.error = RuntimeError("the process of commit was killed")
            else:
                self.error = commit.error
        else:
            self.error = job.error
        if self.error is not None:
            world.check()
            abort = self._launch("abort", lambda: sink.abort(job.messages, *arguments))
            yield lambda: abort.is_ended


class _Job:
    """The tasks of a micro-batch."""

    def __init__(self, driver: Driver, sink: Any, number: int, tasks: list[list[int]]) -> None:
        self._driver, self._sink, self._number, self._tasks = driver, sink, number, tasks
        self.messages: list[Any] = [None] * len(tasks)
        self.error: Exception | None = None
        self._next_attempts = [0] * len(tasks)
        self._failures = [0] * len(tasks)
        self._running: list[tuple[int, Process]] = []

    def run(self) -> Iterator[Callable[[], bool]]:
        """Run them until each has ended well, or one has failed too often."""
        for task in range(len(self._tasks)):
            self._launch(task)
            for attempt in self._driver._world.history.second_attempts():
                self._launch(task, attempt)
        while None in self.messages and self.error is None:
            yield lambda: any(process.is_ended for _, process in self._running)
            for task, process in self._running:
                if process.is_ended:
                    self._take(task, process)
            self._running = [each for each in self._running if not each[1].is_ended]
        self._driver._end([process for _, process in self._running])

    def _take(self, task: int, process: Process) -> None:
        if self.messages[task] is not None:
            return
        if process.error is None and not process.is_killed:
            self.messages[task] = pickle.loads(pickle.dumps(process.value))
            return
        self._failures[task] += 1
        if self._failures[task] == _FAILURES_MAX:
            self.error = process.error or RuntimeError("an executor was killed")
        else:
            self._launch(task)

    def _launch(self, task: int, attempt: int | None = None) -> None:
        if attempt is None:
            attempt = self._next_attempts[task]
        self._next_attempts[task] = max(self._next_attempts[task], attempt + 1)
        context: Any = _Context(self._driver.run, self._number, task, attempt)
        rows = _rows(self._tasks[task], self._number)

        def work() -> Any:
            TaskContext._setTaskContext(context)  # until the first stop
            return self._sink.write(rows)

        name = f"batch {self._number} task {task}:{attempt}"
        self._running.append((task, self._driver._launch(name, work)))


class VirtualTime:
    """Replaces the module `time`: that of the running process."""

    @staticmethod
    def monotonic() -> float:
        return current_process().schedule.now

    @staticmethod
    def sleep(seconds: float) -> None:
        current_process().sleep(seconds)
