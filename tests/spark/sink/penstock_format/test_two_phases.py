"""The two phases of the sink, whatever happens between two of their requests.

The real tasks and the real driver run against a model of a cluster: a process is killed, its
connection breaks or another process goes first, at each step of the phases, and in random histories.
Each record is in the target once, in the order of its partition. An error that remains is only
allowed where a transaction was decided, and then open for longer than brokers allow.
"""

import random
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from functools import partial

import pytest
from pyspark import TaskContext

from penstock.kafka.client.connections import coordinators
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.writing import decisions, prepared, transactional_writer
from tests.spark.sink.penstock_format.modelled_processes import Fault, Process
from tests.spark.sink.penstock_format.modelled_query import SOURCES, History, VirtualTime, World

pytestmark = pytest.mark.unit
BLOCKS, HISTORIES_OF_BLOCK = 9, 32


class Event(Enum):
    """What happens besides faults of a single process."""

    NOTHING = auto()
    DRIVER_KILLED = auto()
    """With its processes."""
    DRIVER_KILLED_ALONE = auto()
    """Its processes live on."""


FAULTS = [fault for fault in Fault if fault is not Fault.NONE]
EVENTS = [*FAULTS, Event.DRIVER_KILLED, Event.DRIVER_KILLED_ALONE]


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch):
    """Let retries and pauses take the time of the model."""
    clocks = {"clock": VirtualTime.monotonic, "sleep": VirtualTime.sleep}
    monkeypatch.setattr(coordinators, "Retries", partial(Retries, **clocks))
    pipeline = partial(Pipeline, sent_from_bytes=1, **clocks)
    monkeypatch.setattr(prepared, "Pipeline", pipeline)
    monkeypatch.setattr(transactional_writer, "Pipeline", pipeline)
    monkeypatch.setattr(decisions, "time", VirtualTime)
    before = TaskContext.get()
    yield
    TaskContext._setTaskContext(before)


class OneEvent(History):
    """A query with a single event. Processes run one after another, or in turn."""

    def __init__(self, event: Fault | Event = Event.NOTHING, step: int = -1, *, is_frame=False):
        self.is_frame = is_frame
        self.batches = 1 if is_frame else 2
        self.event, self.step = event, step
        self.count = 0
        self.has_happened = False

    def pick(self, processes: Sequence[Process], others: int) -> int:
        return 0 if self.is_frame else self.count % (len(processes) + others)

    def fault(self, process: Process) -> Fault:
        self.count += 1
        is_now = self.count - 1 == self.step and isinstance(self.event, Fault)
        self.has_happened |= is_now
        return self.event if is_now else Fault.NONE

    def kills_driver(self) -> bool:
        kills = self.event in {Event.DRIVER_KILLED, Event.DRIVER_KILLED_ALONE}
        is_now = kills and self.count == self.step and not self.has_happened
        self.has_happened |= is_now
        return is_now

    def survives(self, process: Process) -> bool:
        return self.event is Event.DRIVER_KILLED_ALONE


class Stall(OneEvent):
    """A process stands still for some steps of others, and lives on, perhaps without its driver."""

    def __init__(self, event: Event, step: int, steps_until: int, *, is_frame: bool):
        super().__init__(event, step, is_frame=is_frame)
        self.until = step + steps_until
        self.process: Process | None = None

    def pick(self, processes: Sequence[Process], others: int) -> int | None:
        if not self.is_still():
            return super().pick(processes, others)
        possible = [
            index
            for index in range(len(processes) + others)
            if index >= len(processes) or processes[index] is not self.process
        ]
        return possible[super().pick((), len(possible)) or 0] if possible else None

    def is_still(self) -> bool:
        return self.step <= self.count < self.until

    def fault(self, process: Process) -> Fault:
        if self.count < self.step:
            self.process = process
        return super().fault(process)

    def survives(self, process: Process) -> bool:
        return process is self.process


class SecondAttempt(Stall):
    """A second attempt at the first task stands still after some steps, and lives on later."""

    def __init__(self, number: int, own_steps: int, until: int, *, killed_at: int = -1):
        super().__init__(Event.DRIVER_KILLED, killed_at, until - killed_at, is_frame=False)
        self.number, self.own_steps = number, own_steps
        self.attempts: list[Process] = []
        self.has_second = False

    def pick(self, processes: Sequence[Process], others: int) -> int | None:
        for process in processes:
            is_attempt = process.name.startswith("run-1 batch 0 task 0:")
            if is_attempt and process not in self.attempts:
                self.attempts.append(process)
        self.process = self.attempts[1] if len(self.attempts) > 1 else None
        return super().pick(processes, others)

    def is_still(self) -> bool:
        return self.own_steps <= 0 and self.count < self.until

    def fault(self, process: Process) -> Fault:
        self.own_steps -= process is self.process
        self.count += 1
        return Fault.NONE

    def second_attempts(self) -> Sequence[int]:
        has_second, self.has_second = self.has_second, True
        return () if has_second else (self.number,)


class Seeded(History):
    """A query to which random things happen."""

    def __init__(self, seed: int):
        self.random = draw = random.Random(seed)
        self.is_frame = draw.random() < 0.3
        self.batches = draw.randint(1, 2)
        self.faults = draw.randint(0, 4)
        self.fault_rate = draw.choice((0.01, 0.03, 0.1))
        self.driver_kills = draw.choice((0, 1, 1, 2))
        self.survivors = draw.choice((0.0, 0.7, 1.0))
        self.second_rate = draw.choice((0.0, 0.3, 0.6))
        self.has_priorities = draw.random() < 0.5
        self.priorities: dict[object, float] = {}

    def pick(self, processes: Sequence[Process], others: int) -> int:
        keys = [*processes, *range(others)]
        if not self.has_priorities:
            return self.random.randrange(len(keys))
        first = max(keys, key=self._priority)
        if self.random.random() < 0.05:  # it stands still for long
            self.priorities[first] = self.random.random() * 0.1
        return keys.index(first)

    def _priority(self, key: object) -> float:
        return self.priorities.setdefault(key, self.random.random())

    def fault(self, process: Process) -> Fault:
        if not self.faults or self.random.random() > self.fault_rate:
            return Fault.NONE
        self.faults -= 1
        return self.random.choice(FAULTS)

    def kills_driver(self) -> bool:
        if not self.driver_kills or self.random.random() > 0.01:
            return False
        self.driver_kills -= 1
        return True

    def survives(self, process: Process) -> bool:
        return self.random.random() < self.survivors

    def tasks(self) -> list[list[int]]:
        tasks: list[list[int]] = [[] for _ in range(self.random.randint(1, 3))]
        for source in range(SOURCES):
            self.random.choice(tasks).append(source)
        return tasks

    def second_attempts(self) -> Sequence[int]:
        # The same number is that of a stage that is repeated, another that of speculation.
        return (self.random.randint(0, 1),) if self.random.random() < self.second_rate else ()

    def pause_s(self) -> float:
        return self.random.choice((0.0, 0.0, 0.0, 70.0, 130.0))


def ends_of(seeds: range) -> Counter[str]:
    """Run random histories; return how many ended in which way."""
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            ends[World(Seeded(seed)).end()] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
    return ends


def steps_of(is_frame: bool) -> int:
    """Return how many steps the processes of a micro-batch do if nothing happens."""
    history = OneEvent(is_frame=is_frame)
    history.batches = 1
    assert World(history).end() == "written"
    return history.count


@pytest.mark.parametrize("is_frame", [False, True])
def test_all_is_written_if_nothing_happens(is_frame):
    assert 30 < steps_of(is_frame) < 50


@pytest.mark.parametrize("is_frame", [False, True])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_each_record_is_written_once_whatever_happens_at_a_step(event, is_frame):
    for step in range(steps_of(is_frame)):
        history = OneEvent(event, step, is_frame=is_frame)
        assert World(history).end() == "written", step
        assert history.has_happened


@pytest.mark.parametrize("block", range(BLOCKS))
def test_each_record_is_written_once_in_random_histories(block):
    first = block * HISTORIES_OF_BLOCK
    ends = ends_of(range(first, first + HISTORIES_OF_BLOCK))
    assert ends["reported"] <= HISTORIES_OF_BLOCK // 8


@pytest.mark.thorough
@pytest.mark.cases(2)
@pytest.mark.parametrize("is_frame", [False, True])
@pytest.mark.parametrize("event", [Event.NOTHING, Event.DRIVER_KILLED], ids=lambda each: each.name)
@pytest.mark.parametrize("remainder", range(8))
def test_a_process_may_stand_still_and_continue_at_any_time(is_frame, event, remainder):
    steps = steps_of(is_frame)
    for step in range(1 + remainder, steps, 8):
        for steps_until in range(1, 2 * steps, 2):
            history = Stall(event, step, steps_until, is_frame=is_frame)
            assert World(history).end() == "written", (step, steps_until)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("own_steps", range(1, 9))
def test_a_second_attempt_may_continue_at_any_time(number, own_steps):
    """With the same number, it is an attempt in a stage that Spark repeats."""
    for until in range(own_steps, 60):
        assert World(SecondAttempt(number, own_steps, until)).end() == "written", until


@pytest.mark.thorough
@pytest.mark.parametrize("own_steps", [1, 2, 3])
def test_a_second_attempt_may_continue_near_the_end_of_its_driver(own_steps):
    """The batch is decided, and the query begins again before it is in the checkpoint."""
    for killed_at in range(40, 52, 4):
        for until in range(killed_at - 14, killed_at + 10):
            history = SecondAttempt(0, own_steps, until, killed_at=killed_at)
            assert World(history).end() == "written", (killed_at, until)


@pytest.mark.thorough
@pytest.mark.cases(1)
@pytest.mark.parametrize("block", range(BLOCKS, BLOCKS + 10))
def test_each_record_is_written_once_in_many_random_histories(block):
    ends = ends_of(range(1000 * block, 1000 * block + 300))
    assert ends["reported"] <= 30
