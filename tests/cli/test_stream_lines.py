"""The output of a stream on standard error."""

import pytest

from penstock.cli.jobs.stream_lines import StreamLines, one_line
from penstock.jobs.report.counts import Reason, RecordCounts
from penstock.jobs.tasks.writing_task import WritingResult
from penstock.kafka.cluster.ranges import Partition
from penstock.spark.streams.figures import StreamFigures
from penstock.spark.streams.offsets import MicroBatch


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def lines(clock, publish=lambda: None, is_terminal=False):
    return StreamLines(StreamFigures(), publish, is_terminal=is_terminal, clock=clock)


def batch(number):
    return MicroBatch(number, (), (), {})


def result(accepted=9, refused=1, message="bad"):
    counts = RecordCounts()
    counts.add_outcomes(Partition("t", 0), {"accepted": accepted, "refused": refused})
    if refused:
        counts.reasons.add(Reason("t", "refused", "p.P", 87, message), refused)
    return WritingResult(counts)


def test_lines_are_ten_seconds_apart_and_count_every_record(clock, capsys):
    with lines(clock) as shown:
        shown.looked({Partition("t", 0): 1234}, 0)
        shown.done(batch(0), result(), 1.0)
        for number in range(1, 30):
            clock.now += 1
            shown.done(batch(number), result(), 1.0)
    found = capsys.readouterr().err.splitlines()
    assert found == [
        "batch 0: 9 accepted, 1 refused, 0 dropped, 0 failed; 1,234 behind; 1 of t refused by p.P: bad",
        (
            "batches 1 to 10: 90 accepted, 10 refused, 0 dropped, 0 failed; 1,234 behind; "
            "10 of t refused by p.P: bad"
        ),
        (
            "batches 11 to 20: 90 accepted, 10 refused, 0 dropped, 0 failed; 1,234 behind; "
            "10 of t refused by p.P: bad"
        ),
        (
            "batches 21 to 29: 81 accepted, 9 refused, 0 dropped, 0 failed; 1,234 behind; "
            "9 of t refused by p.P: bad"
        ),
    ]


def test_the_same_reason_of_two_topics_is_two_reasons(clock, capsys):
    both = result()
    both.counts.add_outcomes(Partition("u", 0), {"refused": 1})
    both.counts.reasons.add(Reason("u", "refused", "p.P", 87, "bad"), 1)
    lines(clock).done(batch(0), both, 1.0)
    assert capsys.readouterr().err.endswith(
        "; 1 of t refused by p.P: bad; 1 of u refused by p.P: bad\n"
    )


def test_remaining_counts_are_printed_while_no_records_arrive(clock, capsys):
    shown = lines(clock)
    shown.done(batch(0), result(), 1.0)
    shown.done(batch(1), result(), 1.0)
    for _ in range(100):
        clock.now += 1
        shown.looked({}, 0)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "batch 0", "batch 1",
    ]  # fmt: skip


def test_micro_batches_without_records_are_not_printed(clock, capsys):
    with lines(clock) as shown:
        shown.done(batch(0), result(0, 0), 1.0)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_there_is_no_line_of_counts(clock, capsys):
    with lines(clock, is_terminal=True) as shown:
        shown.done(batch(0), result(), 1.0)
    assert capsys.readouterr().err == ""


def test_the_same_warning_is_not_repeated_at_once(clock, capsys):
    shown = lines(clock)
    for _ in range(130):
        shown.warn("no broker; waiting")
        clock.now += 1
    shown.warn("another")
    assert capsys.readouterr().err.splitlines() == [
        "warning: no broker; waiting", "warning: no broker; waiting",
        "warning: no broker; waiting", "warning: another",
    ]  # fmt: skip


def test_counts_are_published_periodically_and_at_the_end(clock):
    published = []
    with lines(clock, lambda: published.append(clock.now)) as shown:
        for _ in range(12):
            shown.looked({}, 0)
            clock.now += 1
    assert published == [0, 5, 10, 12]


def test_a_file_that_cannot_be_written_does_not_end_a_stream(clock, capsys):
    def publish():
        raise OSError(28, "No space left on device")

    with lines(clock, publish) as shown:
        shown.looked({}, 0)
    assert "warning: metrics cannot be written: No space left on device" in capsys.readouterr().err


def test_a_message_stays_on_its_line():
    assert one_line("a\nbatch 7: 0 refused\r\x1b[2J") == "a batch 7: 0 refused  [2J"
    assert len(one_line("x" * 1000)) == 203
