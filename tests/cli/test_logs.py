"""The log of a process: JSON lines from a level on."""

import json
import sys

import pytest
import structlog

from penstock.cli.process.logs import set_up_logs
from penstock.queued_output import QueuedOutput


@pytest.fixture
def lines(capsys):
    """Returns the new lines on standard error."""

    def read():
        return capsys.readouterr().err.splitlines()

    return read


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", ["debug", "info", "error"]), ("info", ["info", "error"]), ("error", ["error"])],
)
def test_events_from_a_level_on_are_json(lines, level, written):
    set_up_logs(level)
    log = structlog.get_logger()
    for name in ("debug", "info", "error"):
        getattr(log, name)("an event", topic="t")
    events = [json.loads(line) for line in lines()]
    assert [event["level"] for event in events] == written
    assert all((event["event"], event["topic"]) == ("an event", "t") for event in events)
    assert all(event["timestamp"].endswith("Z") for event in events)


def test_an_exception_is_a_text_of_its_event(lines):
    set_up_logs("info")
    try:
        raise KeyError("a")
    except KeyError:
        structlog.get_logger().exception("failed")
    (line,) = lines()
    assert "KeyError: 'a'" in json.loads(line)["exception"]


def test_another_renderer(lines):
    set_up_logs("info", renderer=lambda _logger, _method, event: f"<{event['event']}>")
    structlog.get_logger().info("an event")
    assert lines() == ["<an event>"]


def test_lost_lines_are_counted_in_an_event_of_their_own(monkeypatch, tmp_path):
    with (tmp_path / "log").open("wb") as file:
        output = QueuedOutput(file.fileno())
        monkeypatch.setattr(sys, "stderr", output)
        set_up_logs("info")
    event = json.loads(output.lost_line(7))
    assert (event["event"], event["lines"], event["level"]) == ("log lines lost", 7, "error")
    assert event["timestamp"]
