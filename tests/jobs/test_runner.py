"""Tasks in this process: results, progress, and how policies end them."""

import pytest

from penstock.errors import UnavailableError
from penstock.jobs.runner import LocalRunner
from penstock.jobs.tasks.planning import Task
from penstock.kafka.cluster.ranges import OffsetRange

TASKS = [Task((OffsetRange("t", number, 0, 10 * (number + 1)),)) for number in range(3)]


def joined(results):
    return b"+".join(results)


def test_results_are_merged_and_offsets_counted():
    runner = LocalRunner()
    done, seen = runner.counter(), []

    def work(task):
        yield None
        seen.append(done.value)
        yield b"%d" % task.ranges[0].partition
        yield None

    assert runner.run(TASKS, work, joined, counter=done) == b"0+1+2"
    assert (seen, done.value) == ([0, 10, 30], 60)
    assert runner.run(TASKS, lambda _: iter((None,)), joined) is None
    assert runner.run([], work, joined) is None


def test_a_policy_that_ends_the_process_is_reported():
    def work(_):
        yield None
        raise SystemExit(0)

    with pytest.raises(UnavailableError, match="a policy ended the process"):
        LocalRunner().run(TASKS, work, joined)


def test_an_exception_of_a_task_ends_the_run():
    def work(task):
        yield b"one"
        if task is TASKS[1]:
            raise OSError("gone")

    runner = LocalRunner()
    done = runner.counter()
    with pytest.raises(OSError, match="gone"):
        runner.run(TASKS, work, joined, counter=done)
    assert done.value == 10
