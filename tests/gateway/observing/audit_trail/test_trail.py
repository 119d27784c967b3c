"""The queue of the audit trail: bounded, never waited for, and records left out are logged."""

import threading

import pytest
import structlog

from penstock.engine.verdict import refused
from penstock.gateway.observing.audit_trail import repeated_refusals
from penstock.gateway.observing.audit_trail import trail as trails
from penstock.gateway.observing.audit_trail.trail import RECORD_BYTES, AuditTrail
from penstock.gateway.observing.plan_watch import PlanChange
from penstock.gateway.refusal_log import Refused
from tests.audit_records import checked

WAITED_FOR = Refused("new", None, "shop", refused(44, "no", "a.T"), is_awaited=True)
NO = Refused("orders", 0, "shop", refused(44, "no", "a.V"), address="10.0.0.7", records=1)


class Sink:
    """Writes to a list while the test allows it."""

    name = "a list"

    def __init__(self):
        self.records, self.taken = [], []
        self.allowed = threading.Event()
        self.allowed.set()
        self.worked = threading.Semaphore(0)
        self.reopened = threading.Event()
        self.is_closed = False
        self.error = None

    def start(self, settle, warn):
        self._settle, self.warn = settle, warn

    def take(self, records):
        self.taken += records

    def work(self):
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        if not self.allowed.is_set():
            self.warn("not now")
            self.worked.release()
            return 0.001
        records, self.taken = self.taken, []
        self.records += records
        self._settle(records, is_written=True)
        self.worked.release()
        return None

    def reopen(self):
        self.reopened.set()

    def close(self):
        self.is_closed = True


@pytest.fixture
def sink():
    return Sink()


def test_every_refusal_is_written_once_in_order(sink):
    trail = AuditTrail(sink, "g", clock=lambda: 5.0)
    for _ in range(1000):
        trail.put(NO)
    trail.close()

    found = [checked(record) for record in sink.records]
    assert [row["number"] for row in found] == list(range(1, 1001))
    assert len({row["run"] for row in found}) == 1
    assert (trail.written, trail.left_out, trail.held_bytes) == (1000, 0, 0)
    assert sink.is_closed


def test_refusals_beyond_the_bound_are_left_out_counted_and_logged(sink):
    sink.allowed.clear()
    with structlog.testing.capture_logs() as logs:
        trail = AuditTrail(sink, "g", held_max_bytes=20 * RECORD_BYTES)
        for _ in range(5_000):
            trail.put(NO)
            assert trail.held_bytes < 23 * RECORD_BYTES
        assert sink.worked.acquire(timeout=60)
        sink.allowed.set()
        trail.close(60)

    held = trail.written
    assert 5 < held <= 20
    assert trail.left_out == 5_000 - held
    # Those from before are kept: a burst cannot wash out what was first.
    assert [checked(record)["number"] for record in sink.records] == list(range(1, held + 1))
    warnings = [log for log in logs if log["event"] == "refusals left out of the audit trail"]
    assert sum(item["count"] for item in warnings) == trail.left_out == warnings[-1]["total"]
    assert len(warnings) <= 3
    events = [log["event"] for log in logs]
    assert events.count("the audit trail cannot be written now") == 1
    assert events.count("the audit trail is written again") == 1


def test_numbers_of_refusals_show_a_gap(sink):
    sink.allowed.clear()
    trail = AuditTrail(sink, "g", held_max_bytes=1)
    trail.put(NO)
    trail.put(NO)
    trail.put(NO)
    sink.allowed.set()
    while trail.held_bytes:
        assert sink.worked.acquire(timeout=60)
    trail.put(NO)
    trail.close(60)

    assert [checked(record)["number"] for record in sink.records] == [1, 4]
    assert (trail.written, trail.left_out) == (2, 2)


def test_close_does_not_wait_for_refusals_that_cannot_be_written(sink):
    sink.allowed.clear()
    with structlog.testing.capture_logs() as logs:
        trail = AuditTrail(sink, "g")
        for _ in range(7):
            trail.put(NO)
        trail.close(0.01)
        trail.put(NO)

    assert (trail.written, trail.left_out, trail.held_bytes) == (0, 8, 0)
    assert sink.is_closed
    assert next(log["count"] for log in logs if "count" in log) == 7


def test_an_error_does_not_end_the_thread(sink, monkeypatch):
    monkeypatch.setattr(trails, "_RETRY_S", 0.001)
    sink.error = RuntimeError("not expected")
    with structlog.testing.capture_logs() as logs:
        trail = AuditTrail(sink, "g")
        trail.put(NO)
        assert sink.worked.acquire(timeout=60)
        trail.close(60)

    assert trail.written == 1
    assert "an error in the audit trail" in [log["event"] for log in logs]


def test_a_refusal_that_cannot_be_encoded_is_left_out(sink):
    with structlog.testing.capture_logs() as logs:
        trail = AuditTrail(sink, "g")
        trail.put(Refused("t", 0, None, None))
        trail.close(60)

    assert trail.left_out == 1
    assert logs[0]["event"] == "a refusal cannot be written to the audit trail"


def counts(sink, topic="new"):
    found = map(checked, sink.records)
    return [(row["number"], row["count"]) for row in found if row["topic"] == topic]


def test_a_waiting_client_is_a_record_at_once_and_one_at_the_end_with_the_count(sink):
    trail = AuditTrail(sink, "g", clock=iter(range(1000)).__next__, monotonic=lambda: 0.0)
    for _ in range(606):
        trail.put(WAITED_FOR)
    for _ in range(49):
        trail.put(NO)
    trail.close(60)

    assert counts(sink) == [(1, 1), (51, 605)]
    assert len(counts(sink, "orders")) == 49
    last = checked(sink.records[-1])
    assert (last["time"], last["subject"]) == ("1970-01-01T00:10:05.000Z", "topic")
    assert (trail.written, trail.left_out) == (51, 0)


def test_the_count_of_a_minute_is_written_when_it_is_over_without_another_refusal(
    sink, monkeypatch
):
    monkeypatch.setattr(repeated_refusals, "EVERY_S", 0.001)
    trail = AuditTrail(sink, "g")
    for _ in range(3):
        trail.put(WAITED_FOR)
    while trail.written < 2:
        assert sink.worked.acquire(timeout=60)
    assert sum(count for _, count in counts(sink)) == 3
    trail.close(60)
    assert trail.left_out == 0


def test_counts_without_room_are_left_out(sink):
    sink.allowed.clear()
    trail = AuditTrail(sink, "g", held_max_bytes=1, monotonic=lambda: 0.0)
    for _ in range(5):
        trail.put(WAITED_FOR)
    trail.close(0.01)

    assert (trail.written, trail.left_out) == (0, 2)


def test_reopen_reaches_the_sink_at_once(sink):
    trail = AuditTrail(sink, "g")
    trail.reopen()
    assert sink.reopened.wait(60)
    trail.close(60)


@pytest.mark.parametrize("refusal", [NO, WAITED_FOR])
def test_a_refusal_beside_the_end_is_written_or_left_out(sink, monkeypatch, refusal):
    trail = AuditTrail(sink, "g")
    write = trails.audit_record

    def closed_meanwhile(*arguments, **more):
        monkeypatch.setattr(trails, "audit_record", write)
        trail.close()
        return write(*arguments, **more)

    monkeypatch.setattr(trails, "audit_record", closed_meanwhile)
    trail.put(refusal)
    assert (trail.written, trail.left_out, trail.held_bytes) == (0, 1, 0)


def test_a_change_of_a_plan_is_written():
    sink = Sink()
    trail = AuditTrail(sink, "gw")
    trail.put_change(PlanChange("orders", "0123456789ab", "ba9876543210", "reload"))
    trail.put(NO)
    trail.close()
    records = [checked(line) for line in sink.records]
    assert [(record["number"], record["subject"]) for record in records] == [
        (1, "plan"),
        (2, "records"),
    ]
