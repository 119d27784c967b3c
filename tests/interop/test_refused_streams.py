"""Kafka Streams behind a gateway that refuses some of its records (docs/failures.md#clients)."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.interop.conftest import JAVA, REASON
from tests.interop.streams import streams

pytestmark = pytest.mark.interop


@contextmanager
def copying(
    gateway, source, target, folder, *handler, guarantee="at_least_once"
) -> Iterator[list[list[str]]]:
    """Run a topology that copies a topic, and return its output."""
    command = [*streams(JAVA / "RefusedStreams.java"), gateway.address, f"app-{source}", source,
               target, folder, guarantee, *handler]  # fmt: skip
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        lines: list[list[str]] = []
        reader = threading.Thread(
            target=lambda: lines.extend(line.rstrip("\n").split("\t") for line in running.stdout)
        )
        reader.start()
        try:
            yield lines
        finally:
            running.stdin.close()
            running.wait(60)
            reader.join(60)


@pytest.fixture
def put(kafka):
    """Write values to a topic at the broker."""

    def write(topic: str, *values: str) -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for value in values:
            producer.produce(topic, value, "k", partition=0)
        assert producer.flush(60) == 0

    return write


def test_by_default_a_refusal_ends_the_client_with_the_reason(judged, topic, put, stored, tmp_path):
    source, target = topic(), topic()
    put(source, "good-0")
    with copying(judged, source, target, tmp_path) as lines:
        # In one batch with the bad record, it would be reported first, without a reason.
        wait_until(lambda: b"good-0" in values_of(stored(target)), 120, what="the first record")
        put(source, "bad-1", "good-2")
        wait_until(lambda: ["state", "ERROR"] in lines, 120, what="its end")
    assert ["ended", "InvalidRecordException", REASON] in lines
    assert b"bad-1" not in values_of(stored(target))


def test_a_handler_that_continues_leaves_the_refused_batch_out(
    judged, topic, put, stored, tmp_path
):
    source, target = topic(), topic()
    put(source, "good-0", "bad-1", "good-2")
    with copying(judged, source, target, tmp_path, "continue") as lines:
        wait_until(lambda: any(line[:2] == ["left out", "bad-1"] for line in lines), 120, what="it")
        put(source, "good-3")
        wait_until(lambda: b"good-3" in values_of(stored(target)), 120, what="the next record")
    assert ["left out", "bad-1", "InvalidRecordException", REASON] in lines
    left_out = {line[1] for line in lines if line[0] == "left out"}
    kept = {value.decode() for value in values_of(stored(target))}
    assert kept | left_out == {"good-0", "bad-1", "good-2", "good-3"}
    assert not kept & left_out
    assert ["state", "ERROR"] not in lines


@pytest.mark.parametrize("handler", [(), ("continue",)], ids=["default", "handler"])
def test_exactly_once_a_refusal_ends_the_client_and_aborts_its_transaction(
    judged, topic, put, stored, tmp_path, handler
):
    """A producer cannot commit a transaction with a refused batch, whatever the handler returns."""
    source, target = topic(), topic()
    put(source, "good-0", "bad-1", "good-2")
    with copying(judged, source, target, tmp_path, *handler, guarantee="exactly_once_v2") as lines:
        wait_until(lambda: ["state", "ERROR"] in lines, 120, what="its end")
    assert "ended" in {line[0] for line in lines}
    assert handler == () or ["left out", "bad-1", "InvalidRecordException", REASON] in lines
    assert set(values_of(stored(target, isolation="read_committed"))) <= {b"good-0"}
