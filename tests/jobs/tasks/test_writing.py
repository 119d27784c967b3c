"""How work is divided among tasks, and what is counted of no task."""

from types import SimpleNamespace

from penstock.jobs.report.counts import RecordCounts
from penstock.jobs.tasks.writing import count_raw, write_raw
from penstock.jobs.tasks.writing_task import CountingTask, WritingResult
from penstock.kafka.cluster.ranges import OffsetRange


class Runner:
    """Keeps the tasks, and returns a payload."""

    def __init__(self, cores, payload=None):
        self.cores, self.payload = cores, payload
        self.tasks = self.work = self.counter = None

    def run(self, tasks, work, merge, *, counter=None):
        self.tasks, self.work, self.counter = tuple(tasks), work, counter
        return self.payload


def part(number, end=10):
    return OffsetRange("t", number, 0, end)


def test_ranges_are_in_tasks_and_empty_ranges_are_shared_among_cores():
    runner, work = Runner(2), SimpleNamespace()
    empty = [part(number, 0) for number in range(5)]
    write_raw(runner, [part(7), part(8)], work, empty_ranges=empty)
    ranges = [task.ranges for task in runner.tasks]
    assert sorted(part for some in ranges for part in some if part.end) == [part(7), part(8)]
    assert ranges[-2:] == [(empty[0], empty[2], empty[4]), (empty[1], empty[3])]
    assert runner.work is work


def test_a_core_without_an_empty_range_has_no_task_of_its_own():
    runner = Runner(4)
    write_raw(runner, (), SimpleNamespace(), empty_ranges=[part(1, 0)])
    assert [task.ranges for task in runner.tasks] == [(part(1, 0),)]


def test_without_tasks_nothing_is_counted():
    assert write_raw(Runner(2), (), SimpleNamespace()) == WritingResult(RecordCounts(), 0)
    assert count_raw(Runner(2), (), SimpleNamespace()) == RecordCounts()


def test_counts_are_those_of_the_runner():
    result = WritingResult(RecordCounts(), 5)
    assert write_raw(Runner(1, result.encode()), [part(1)], SimpleNamespace()).before == 5


def test_counting_writes_nothing():
    runner, work, counter = Runner(1, WritingResult(RecordCounts(), 0).encode()), object(), object()
    assert count_raw(runner, [part(1)], work, counter=counter) == RecordCounts()
    assert isinstance(runner.work, CountingTask)
    assert runner.counter is counter
