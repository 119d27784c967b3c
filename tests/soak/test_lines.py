"""The common part of the clients' programs in Python."""

import sys

import pytest

from tests.soak.clients.lines import BURST, Arguments, Sender, arguments
from tests.soak.producer_reports import read_reports
from tests.soak.producers import PLAIN, Producer
from tests.soak.records import read
from tests.soak.topic_names import JUDGED, SCHEMAS


def sender(topic=JUDGED, rate=1000):
    producer = Producer("kcat/plain", "kcat", PLAIN, topic, "gb")
    return Sender(producer, Arguments("127.0.0.1:1", rate, 300, (producer,)))


def test_the_command_line_of_a_producer_is_read(monkeypatch):
    producer = sender().producer
    monkeypatch.setattr(sys, "argv", ["program", "127.0.0.1:1", "20", "300", producer.argument])

    assert arguments("kcat") == Arguments("127.0.0.1:1", 20, 300, (producer,))


@pytest.mark.parametrize("topic", [JUDGED, SCHEMAS])
def test_records_are_numbered_and_carry_their_expected_outcome(topic):
    client = sender(topic)
    client.run = 2

    found = [client.next() for _ in range(4)]

    assert [number for number, _, _ in found] == [0, 1, 2, 3]
    values = [read(0, value, 0.0) for _, _, value in found]
    assert [value.letter for value in values] == ["g", "b", "g", "b"]
    assert {(value.producer, value.run) for value in values} == {("kcat/plain", 2)}
    assert [value.number for value in values] == [0, 1, 2, 3]


def test_lines_are_read_as_they_are_written(capsys):
    client = sender()
    client.run = 1

    client.note("refused", 7, "not\ttoday\n")
    client.dead("why")
    client.ended()

    report = read_reports(capsys.readouterr().out.splitlines(keepends=True), ["kcat/plain"])[
        "kcat/plain"
    ]
    assert report.outcomes[7].event == "refused"
    assert report.why == {"not today": 1, "dead: why": 1}
    assert report.ended


def test_a_late_report_belongs_to_the_run_that_sent_the_record(capsys):
    client = sender()
    client.run = 2

    client.note("acknowledged", 7, run=1)

    report = read_reports([capsys.readouterr().out], ["kcat/plain"])["kcat/plain"]
    assert report.outcomes[7].run == 1


def test_records_are_sent_in_bursts_at_the_rate():
    client = sender(rate=1)
    for _ in range(BURST - 1):
        client.next()
        assert client.ahead_s() == 0
    client.next()

    assert 0 < client.ahead_s() <= BURST
