"""What the clients' programs in Python have in common."""

import sys

import pytest

from tests.soak.clients.lines import BURST, Arguments, Sender, arguments
from tests.soak.producers import PLAIN, Producer
from tests.soak.records import read
from tests.soak.told import told_by
from tests.soak.topic_names import JUDGED, SCHEMAS


def sender(topic=JUDGED, rate=1000):
    producer = Producer("kcat/plain", "kcat", PLAIN, topic, "gb")
    return Sender(producer, Arguments("127.0.0.1:1", rate, 300, (producer,)))


def test_the_command_line_is_what_a_producer_writes(monkeypatch):
    producer = sender().producer
    monkeypatch.setattr(sys, "argv", ["program", "127.0.0.1:1", "20", "300", producer.argument])

    assert arguments("kcat") == Arguments("127.0.0.1:1", 20, 300, (producer,))


@pytest.mark.parametrize("topic", [JUDGED, SCHEMAS])
def test_records_are_numbered_and_tell_what_is_to_become_of_them(topic):
    one = sender(topic)
    one.run = 2

    found = [one.next() for _ in range(4)]

    assert [number for number, _, _ in found] == [0, 1, 2, 3]
    values = [read(0, value, 0.0) for _, _, value in found]
    assert [value.letter for value in values] == ["g", "b", "g", "b"]
    assert {(value.producer, value.run) for value in values} == {("kcat/plain", 2)}
    assert [value.number for value in values] == [0, 1, 2, 3]


def test_lines_are_read_as_they_are_written(capsys):
    one = sender()
    one.run = 1

    one.note("refused", 7, "not\ttoday\n")
    one.dead("why")
    one.ended()

    told = told_by(capsys.readouterr().out.splitlines(keepends=True), ["kcat/plain"])["kcat/plain"]
    assert told.outcomes[7].event == "refused"
    assert told.why == {"not today": 1, "dead: why": 1}
    assert told.ended


def test_what_is_told_late_is_of_the_run_that_has_sent_it(capsys):
    one = sender()
    one.run = 2

    one.note("acknowledged", 7, run=1)

    told = told_by([capsys.readouterr().out], ["kcat/plain"])["kcat/plain"]
    assert told.outcomes[7].run == 1


def test_records_are_sent_in_bursts_at_the_rate():
    one = sender(rate=1)
    for _ in range(BURST - 1):
        one.next()
        assert one.ahead_s() == 0
    one.next()

    assert 0 < one.ahead_s() <= BURST
