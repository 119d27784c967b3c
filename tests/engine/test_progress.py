"""The words that a worker and its parent share."""

import pytest

from penstock.engine.workers.progress import (
    DONE,
    INTERCEPTING,
    JUDGING,
    PREPARING,
    CurrentAttempt,
    SharedProgress,
    shared_file,
)


@pytest.fixture
def both():
    """The progress as the worker writes it, and as the parent reads it."""
    with shared_file() as file:
        yield SharedProgress(file.fileno()), SharedProgress(file.fileno())


@pytest.mark.parametrize("phase", [JUDGING, INTERCEPTING, DONE, PREPARING])
@pytest.mark.parametrize("attempt", [1, 2, 5, 2**40 + 3])
def test_an_attempt_and_its_phase_are_read_as_written(both, attempt, phase):
    worker, parent = both
    worker.begin(attempt, phase)
    assert parent.current == CurrentAttempt(attempt, phase, topic_number=0)


def test_a_topic_is_loaded_beside_the_last_attempt(both):
    worker, parent = both
    worker.begin(3, DONE)
    worker.load(7)
    assert parent.current == CurrentAttempt(3, DONE, topic_number=7)
    worker.load(0)
    assert parent.current == CurrentAttempt(3, DONE, topic_number=0)


def test_attempts_to_skip_change_nothing_else(both):
    worker, parent = both
    worker.begin(4)
    parent.skip(6)
    assert (worker.skipped, parent.current) == (6, CurrentAttempt(4, JUDGING))


def test_at_first_nothing_has_begun(both):
    worker, parent = both
    assert (parent.current, worker.skipped) == (CurrentAttempt(0, JUDGING), 0)
