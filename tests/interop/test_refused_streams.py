"""Kafka Streams behind a gateway that refuses some of its records (docs/failures.md#clients)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.interop.conftest import POLICIES, PROPERTIES, REASON
from tests.interop.programs import Programs, running

pytestmark = pytest.mark.interop


@contextmanager
def copying(
    gateway, source, target, folder, *handler, guarantee="at_least_once"
) -> Iterator[list[list[str]]]:
    """Run a topology that copies a topic, and return its output."""
    command = [*Programs.STREAMS.command("RefusedStreams.java"), gateway.address, f"app-{source}",
               source, target, str(folder), guarantee, *handler]  # fmt: skip
    with running(command) as found:
        yield found.lines


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


def test_with_reasons_of_the_batch_its_first_record_has_the_reason(
    shared_gateway, topic, put, tmp_path
):
    judged = shared_gateway({**PROPERTIES, "produce.rejection.reasons": "batch"}, POLICIES)
    source = topic()
    put(source, "good-0", "bad-1", "good-2")
    with copying(judged, source, topic(), tmp_path) as lines:
        wait_until(lambda: ["state", "ERROR"] in lines, 120, what="its end")
    (text,) = {line[2] for line in lines if line[0] == "ended"}
    assert re.fullmatch(rf"Record [01] of the batch \(the first is 0\): {REASON}", text)


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
