"""Paths of policies in a backtest, by the events of its workers."""

from penstock.backtest.path_counting import PathCounting
from penstock.engine.path_counts import PathCount, events_of
from penstock.engine.workers.observer import WorkerEnd


def test_events_of_paths_are_counted():
    counting = PathCounting()
    counting.judged("p", None, 0.0, 0.0)
    counting.ended(WorkerEnd.CRASHED)
    for event in (*events_of([PathCount("p", "a", 3, 0)]), ("output", "lost", 1)):
        counting.policy_event(*event)

    assert counting.paths.counts() == [PathCount("p", "a", 3, 0)]
