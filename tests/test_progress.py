"""The progress of a command on a terminal and in a log."""

import io
import re
import sys
import threading
import time

import pytest

from penstock.progress import Pace, Phase, Progress, duration, waiting
from tests.gateways import without_waiting


def test_progress_before_the_first_record():
    pace = Pace(1000, 0.0)
    pace.update(0, 5.0)
    assert str(pace) == "no record yet"
    assert pace.left_s is None


def test_progress_has_records_rate_and_remaining_time():
    pace = Pace(10_000, 100.0)
    pace.update(1000, 101.0)
    pace.update(3000, 103.0)
    assert (pace.rate, pace.left_s) == (1000.0, 7.0)
    assert str(pace) == "3,000 of 10,000 records (30.0%), 1,000 a second, 7 s left"


def test_the_rate_is_over_the_last_half_minute():
    pace = Pace(100_000, 0.0)
    for second in range(1, 101):
        pace.update(10 if second <= 60 else 10 + 500 * (second - 60), float(second))
    assert pace.rate == pytest.approx(500, rel=0.05)


def test_without_a_total_there_is_no_remaining_time():
    pace = Pace(None, 0.0)
    pace.update(500, 2.0)
    assert str(pace) == "500 records, 250 a second"


def test_progress_never_exceeds_the_total_and_never_decreases():
    pace = Pace(100, 0.0)
    pace.update(120, 2.0)
    pace.update(7, 3.0)
    assert pace.done == 120
    assert str(pace) == "all 100 records are read"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (200_000, "2 d 7 h")],
)
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


def test_a_phase_without_records_has_its_duration():
    assert Phase("starting Spark", None, None).line() == "starting Spark: 0 s"
    assert Phase("judging t", lambda: 0, 9).line() == "judging t: no record yet, 0 s so far"


_SHOWN = re.compile(r"starting Spark: \d s")


class Terminal(io.StringIO):
    """A standard error that is a terminal, and notifies of writes."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.written.set()
        return super().write(text)


def test_a_terminal_shows_progress_at_once(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress().phase("starting Spark"):
        assert terminal.written.wait(60)
        deadline = time.monotonic() + 60
        while not _SHOWN.search(terminal.getvalue()) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert _SHOWN.search(terminal.getvalue())


def test_without_a_terminal_a_line_is_printed_periodically(capsys):
    began, shown = time.monotonic(), ""
    progress = Progress(every_s=0.05)
    done = iter(range(100, 100_000, 100))
    with progress.phase("judging t", lambda: next(done), 10_000):
        while shown.count("\n") < 2:
            time.sleep(0.01)
            shown += capsys.readouterr().err
    lines = (shown + capsys.readouterr().err).splitlines()
    assert 2 <= len(lines) <= (time.monotonic() - began) / 0.05
    assert all(line.startswith("judging t: ") and "of 10,000 records" in line for line in lines)
    assert without_waiting("\n".join([*lines, "penstock audit: wrong"])) == "penstock audit: wrong"


def test_short_work_prints_nothing_and_short_phases_share_a_clock(capsys):
    with Progress().phase("quick"):
        pass
    assert capsys.readouterr().err == ""
    began, shown = time.monotonic(), ""
    progress = Progress(every_s=0.2)
    while not shown:
        with progress.phase("a phase"):
            time.sleep(0.1)
        shown += capsys.readouterr().err
    lines = shown.splitlines()
    assert 1 <= len(lines) <= (time.monotonic() - began) / 0.2


def test_an_error_ends_the_phase():
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), Progress().phase("work"):
        raise ZeroDivisionError
    assert set(threading.enumerate()) <= before  # those of other tests may have ended


def test_slow_work_is_reported_in_progress(capsys):
    printed = threading.Event()
    written = []

    class Output(io.StringIO):
        def write(self, text):
            written.append(text)
            printed.set()
            return len(text)

    before, sys.stderr = sys.stderr, Output()
    try:
        with waiting("waiting for k:1", after_s=0.0):
            assert printed.wait(30)
    finally:
        sys.stderr = before
    assert written[0] == "waiting for k:1\n"


def test_quick_work_is_not_reported(capsys):
    with waiting("waiting for k:1", after_s=1000.0):
        pass
    assert capsys.readouterr().err == ""
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)
