"""Limits of log lines for long texts of clients."""

import pytest
import structlog

from penstock.cli.process.log_limits import (
    EXCEPTION_MAX,
    FIELD_MAX,
    ITEM_MAX,
    ITEMS_MAX,
    LINES_A_SECOND,
    LogLimits,
)


@pytest.fixture
def clock():
    return [10.0]


@pytest.fixture
def limits(clock):
    return LogLimits(lambda: clock[0])


def test_long_texts_are_truncated(limits):
    fields = {"event": "closing", "client_id": "c" * 30_000, "exception": "e" * 30_000, "n": 1}
    taken = limits(None, "info", fields)
    assert taken["client_id"] == "c" * FIELD_MAX + "..."
    assert taken["exception"] == "e" * EXCEPTION_MAX + "..."
    assert taken["n"] == 1


def test_long_lists_are_truncated(limits):
    topics = [f"{number:0300}" for number in range(3_000)]
    taken = limits(None, "info", {"event": "refused", "topics": topics, "ids": (1, 2)})
    assert len(taken["topics"]) == ITEMS_MAX + 1
    assert taken["topics"][-1] == "... 3000 in all"
    assert len(taken["topics"][0]) == ITEM_MAX + len("...")
    assert taken["ids"] == [1, 2]


def test_lines_of_an_event_are_limited_per_second_and_the_rest_is_counted(limits, clock):
    for _ in range(LINES_A_SECOND):
        assert "left_out" not in limits(None, "info", {"event": "refused"})
    for _ in range(7):
        with pytest.raises(structlog.DropEvent):
            limits(None, "info", {"event": "refused"})
    assert "left_out" not in limits(None, "info", {"event": "another"})
    clock[0] += 1.0
    assert limits(None, "info", {"event": "refused"})["left_out"] == 7
    assert "left_out" not in limits(None, "info", {"event": "refused"})
