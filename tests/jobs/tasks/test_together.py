"""Work that mostly waits: several functions at a time, results in order, and errors."""

import threading

import pytest

from penstock.jobs.tasks.together import Together

WITHIN_S = 30


def run(together, most):
    """Run to the end; return how often it yielded, and the results."""
    steps, shown = together.run(most), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return shown, end.value
        shown += 1


def test_results_are_in_order_and_concurrent_work_is_limited():
    at_work, most, lock = 0, 0, threading.Lock()
    all_there = threading.Barrier(3)

    def work(number):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if number < 3:
            all_there.wait(WITHIN_S)
        yield
        with lock:
            at_work -= 1
        return number

    works = [lambda number=number: work(number) for number in range(20)]
    _, results = run(Together(works), 3)
    assert results == list(range(20))
    assert most == 3


def test_without_work():
    assert run(Together([]), 8) == (0, [])


def test_it_yields_only_while_work_makes_progress():
    going_on, ended = threading.Event(), threading.Event()

    def work():
        assert going_on.wait(WITHIN_S)
        yield
        assert ended.wait(WITHIN_S)
        return "done"

    steps = Together([work]).run(1)
    threading.Timer(0.5, going_on.set).start()
    next(steps)
    assert going_on.is_set()
    ended.set()
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    assert end.value.value == ["done"]


@pytest.mark.parametrize("error", [ValueError("wrong"), SystemExit(3)])
def test_the_first_error_ends_the_others_at_their_next_step(error):
    has_begun, closed = threading.Event(), threading.Event()

    def endless():
        try:
            while True:
                has_begun.set()
                yield
        finally:
            closed.set()

    def fails():
        assert has_begun.wait(WITHIN_S)
        raise error
        yield

    with pytest.raises(type(error)):
        run(Together([endless, fails]), 2)
    assert closed.wait(WITHIN_S)


def test_closing_the_results_ends_the_work():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield
        finally:
            closed.set()

    steps = Together([endless]).run(1)
    next(steps)
    steps.close()
    assert closed.wait(WITHIN_S)
