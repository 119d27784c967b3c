"""The program that `penstock dev` prints: its output for a response, and its exit code."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.connections.settings import read_settings
from penstock.kafka.client.errors import ResponseError, response_error
from penstock.kafka.local import produce
from penstock.kafka.local.ports import free_ports
from penstock.kafka.local.produce import leader_of, lines_of, main
from tests.kafka.local.produce_answers import answer

pytestmark = pytest.mark.system

POLICY = """
from penstock.policy import *
class Positive(RecordValidationPolicy):
    def validate(self, topic, record):
        if int(record.value) <= 0:
            raise InvalidRecordException("must be above zero")
"""
PROPERTIES = {
    "record.validation.policy.class.name": "policies.Positive",
    "topics.*.record.validation.policy": "any",
}


def test_a_stored_record_has_an_offset():
    assert lines_of("a", answer(ErrorCode.none)) == ["stored:  a  at offset 7"]


def test_a_record_that_is_not_in_its_topic_is_not_called_stored():
    [line, why] = lines_of("a", answer(ErrorCode.none, offset=-1))
    assert line == "success: a  without an offset"
    assert "dead letter topic" in why
    assert "interceptor dropped it" in why


def test_the_errors_of_records_come_before_the_message_that_sums_them_up():
    assert lines_of("a", answer(ErrorCode.invalid_record, "one", "two", message="sum")) == [
        "refused: a",
        "         INVALID_RECORD (87): one",
        "         INVALID_RECORD (87): two",
    ]
    assert lines_of("a", answer(ErrorCode.invalid_record, None, message="sum"))[1:] == [
        "         INVALID_RECORD (87): sum"
    ]


def test_a_retriable_error_is_not_a_refusal():
    assert lines_of("a", answer(ErrorCode.request_timed_out, message="the registry is away")) == [
        "postponed: a",
        "         REQUEST_TIMED_OUT (7): the registry is away",
        "         retriable: producers send the record again",
    ]


@pytest.mark.parametrize(
    ("codes", "ends_with", "is_explained"),
    [((0, 7), 3, False), ((7, 87), 1, True), ((0, 0), 0, False)],
)
def test_the_exit_code_distinguishes_refused_from_postponed_records(
    monkeypatch, capsys, codes, ends_with, is_explained
):
    monkeypatch.setattr(produce, "_send", lambda *_: list(codes))
    assert main(["127.0.0.1:1", "t", "a", "b"]) == ends_with
    assert ("Other clients" in capsys.readouterr().out) == is_explained


def test_a_response_without_a_text_says_so():
    [_, line] = lines_of("a", answer(ErrorCode.policy_violation))
    assert line.endswith("POLICY_VIOLATION (44): the response has no text")


def test_no_control_sequence_is_printed():
    lines = lines_of("a\x1b[2J", answer(ErrorCode.invalid_record, "b\x1b]0;x\x07"))
    assert "\x1b" not in "".join(lines)


def test_a_refusal_prints_its_reason_and_exits_with_1(gateway, topic, capsys):
    running = gateway(PROPERTIES, POLICY)
    name = topic()

    assert main([running.address, name, "5", "0"]) == 1

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "stored:  5  at offset 0",
        "refused: 0",
        "         INVALID_RECORD (87): must be above zero",
    ]
    assert main([running.address, name, "6"]) == 0
    assert capsys.readouterr().out == "stored:  6  at offset 1\n"


def test_a_topic_that_was_just_created_is_waited_for():
    unknown = response_error(3, "topic new")
    found = [unknown, response_error(5, "topic new"), PartitionLeader(1, 0)]

    def leader(topic, partition):
        outcome = found.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    settings = read_settings({"bootstrap.servers": "a:1"}, Path("f"))
    connection = SimpleNamespace(
        leader=leader, retries=lambda: Retries(settings, sleep=lambda _: None)
    )
    assert leader_of(connection, "new") == PartitionLeader(1, 0)

    over = iter([0.0, 1e9])
    connection.retries = lambda: Retries(settings, clock=lambda: next(over))
    found.append(unknown)
    with pytest.raises(ResponseError, match="topic new"):
        leader_of(connection, "new")


def test_a_topic_that_does_not_exist_is_reported_in_one_line(kafka, capsys):
    assert main([kafka.bootstrap_servers, "there-is-none", "5"]) == 3
    message = capsys.readouterr().err
    assert "topic there-is-none: UNKNOWN_TOPIC_OR_PARTITION" in message
    assert message.count("\n") == 1


def test_an_address_on_which_nothing_listens_is_3_in_one_line(capsys):
    address = f"127.0.0.1:{free_ports()[0]}"
    assert main([address, "t", "5"]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_its_output_may_be_cut_off():
    code = """
import penstock.kafka.local.produce as program
program._send = lambda *_: print("x" * 100_000, flush=True)
raise SystemExit(program.main(["127.0.0.1:1", "topic", "value"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        running.stdout.close()
        complaint = running.stderr.read()
    assert (running.returncode, complaint) == (0, b"")


def test_an_address_without_a_port_is_wrong_use(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["gateway", "t", "5"])
    assert ended.value.code == 2
    assert "argument HOST:PORT: 'gateway' is not host:port" in capsys.readouterr().err
