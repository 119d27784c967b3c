"""The state of producers that several gateways keep: the order of records, and the memory."""

import json

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.producer.batch import Stored
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records import encoding
from tests.gateway.produce.producer_state.shared_topic import (
    ARRIVAL,
    KEY,
    NOT_ENOUGH_REPLICAS,
    OUT_OF_ORDER,
    TIMED_OUT,
    UNKNOWN_PRODUCER,
    Topic,
)


def three_gateways():
    topic = Topic()
    first, other, third = topic.gateway(), topic.gateway(), topic.gateway()
    first.store(0, 10, (0,))
    other.read()
    return topic, first, other, third


def test_a_batch_that_was_split_at_another_gateway_counts_as_its_parts():
    """The newer record has the lower number: a third gateway continues from there."""
    _, gateway, other, third = three_gateways()
    gateway.decide(10, 10, (0, 1, 2))
    gateway.defer(10, 10)  # its connection is gone before it was sent
    other.read()
    other.store(10, 5, (0, 1))  # the client has split it
    third.read()
    assert third.decide(15, 5, (2,)).broker_first == 15 - 3


def test_the_gateway_that_knew_the_whole_batch_learns_of_its_parts():
    _, gateway, other, third = three_gateways()
    gateway.decide(10, 10, (0, 1, 2))
    gateway.defer(10, 10)
    other.read()
    other.store(10, 5, (0, 1))
    gateway.read()
    third.read()
    assert gateway.decide(15, 5, (2,)).broker_first == 15 - 3
    assert third.decide(15, 5, (2,)).broker_first == 15 - 3


def test_a_late_record_hides_no_state():
    """It was written from older state: newer state stays known."""
    _, gateway, other, third = three_gateways()
    gateway.writes_late = True
    gateway.decide(10, 10, (0, 1))
    other.store(10, 10, (0, 1))
    other.store(20, 10, (0,))
    gateway.write_late()
    third.read()
    assert third.decide(30, 1).broker_first == 30 - 4


def test_a_write_that_failed_permanently_does_not_hide_the_state_of_others():
    """The client has split the batch at another gateway, which has read the whole topic."""
    for place in range(3):
        _, *gateways = three_gateways()
        first, other, _ = gateways
        first.writes_late = True
        first.decide(10, 10, (0, 1, 2))
        first.late.clear()
        first.writes_late = False
        other.store(10, 5, (0, 1))
        for each in gateways:
            each.read()
        assert gateways[place].decide(15, 5, (2,)).broker_first == 15 - 3


def test_unwritten_and_unsent_batches_do_not_lower_sequence_numbers_of_others():
    """The client has given up its first batch; the next one was stored through another gateway.

    With a number that is too low, the broker would take a new batch for a stored batch.
    """
    topic = Topic()
    first, other = topic.gateway(), topic.gateway()
    first.writes_late = True
    first.decide(0, 3, (1,))
    first.decide(3, 2, (1,))
    first.late.clear()
    other.store(3, 2, (1,))
    first.read()
    assert first.decide(5, 2).broker_first == 5 - 1


def test_batches_of_a_gateway_that_began_late_follow_what_was_dropped_before():
    """The leader does not know the producer, so the other gateway begins with a later batch."""
    topic = Topic()
    first, other = topic.gateway(), topic.gateway()
    first.defer(3, 2)
    other.decide(3, 2, (0,))
    first.read()
    first.decide(0, 1, (0,))
    assert other.decide(5, 2, (1,)).broker_first == 5 - 1
    first.read()
    assert first.decide(3, 2, (0,)).broker_first == 3 - 1
    assert first.decide(5, 2, (1,)).broker_first == 5 - 2


def test_a_producer_that_was_evicted_before_its_record_was_read_learns_from_others():
    topic = Topic()
    first, other = topic.gateway(producers_max=1), topic.gateway()
    first.store(0, 10, (0,))
    other.read()
    other.store(0, 10, (0,), producer=8)
    first.read()
    first.decide(10, 10, (0, 1, 2))
    first.defer(10, 10)
    unread = topic.records.pop()
    other.store(10, 10, (0,), producer=8)  # one reads it before what it has written itself
    first.read()
    first.decide(0, 10, producer=9)
    assert KEY in first.producers.kept
    topic.records.append(unread)
    other.read()
    other.store(10, 5, (0, 1))  # the client has split it
    first.read()
    assert first.decide(15, 5, (2,)).broker_first == 15 - 3


def test_after_compaction_a_late_record_hides_no_state_either():
    """A gateway with both records writes them again merged, even for an unused producer."""
    topic, gateway, other, third = three_gateways()
    gateway.writes_late = True
    gateway.decide(10, 10, (0, 1))
    other.store(10, 10, (0, 1))
    other.store(20, 10, (0,))
    gateway.write_late()
    third.read().producers.expire()
    topic.compact()
    fourth = topic.gateway().read()
    assert fourth.decide(30, 1).broker_first == 30 - 4


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_a_fenced_producer_does_not_replace_the_newer_epoch(place, is_there):
    """Its record is the last; the gateway that has written the newer record may have ended."""
    topic = Topic()
    gateways = [topic.gateway() for _ in range(3)]
    fenced = gateways[place]
    fenced.decide(0, 10, (0,))
    gateways[0].read().decide(0, 10, (0, 1), epoch=1)
    fenced.decide(10, 10, (0,))
    there = gateways if is_there else gateways[1:]
    for each in there * 3:
        each.read().producers.expire()
    written = len(topic.records)
    for each in there:
        each.read().producers.expire()
    assert len(topic.records) == written
    topic.compact()
    assert topic.gateway().read().decide(10, 2, epoch=1).broker_first == 10 - 2


def test_a_fenced_producer_at_its_own_gateway_does_not_replace_the_newer_epoch():
    topic = Topic()
    gateway = topic.gateway()
    gateway.producers = Producers(now=lambda: 1.0, keep=gateway._keep)
    gateway.decide(0, 10, (0,))
    gateway.decide(0, 10, (0, 1), epoch=1)
    gateway.decide(10, 10, (0,))
    again = Producers(now=lambda: 1.0, keep=gateway._keep)
    again.restore(*topic.records[-1])
    assert again.find(KEY, 1, Range(0, 10)) is not None


def test_state_that_a_gateway_restores_from_its_file_reaches_others():
    """Its clients may connect to another gateway when it starts with shared state."""
    kept: list = []
    alone = Producers(now=lambda: 1.0, keep=lambda *args: (kept.append(args[:2]), args[2](None)))
    alone.decide(KEY, ARRIVAL, 0, Range(0, 10), (0,), b"x", connection=1, callback=lambda _: None)
    topic = Topic()
    gateway = topic.gateway()
    gateway.producers.restore(*kept[0], 1.0, 0)
    gateway.producers.expire()
    assert topic.gateway().read().decide(10, 2).broker_first == 10 - 1


@pytest.mark.parametrize("is_in_use", [True, False])
def test_a_record_written_before_others_were_read_hides_no_state(is_in_use):
    """Even if the gateway that has written the others has ended when it is read."""
    topic, gateway, other, third = three_gateways()
    other.decide(10, 10, (0,))
    other.decide(20, 10, (0,))
    gateway.decide(10, 10, (0,))
    (gateway if is_in_use else third).read().decide(30, 1)
    topic.compact()
    assert topic.gateway().read().decide(30, 1).broker_first == 30 - 3


def test_gateways_stop_writing_once_their_state_agrees():
    topic, gateway, other, _ = three_gateways()
    others = [topic.gateway() for _ in range(3)]
    gateway.writes_late = True
    gateway.decide(10, 10, (0, 1))
    other.store(10, 10, (0, 1))
    gateway.write_late()
    for _ in range(10):
        for each in (*others, other):
            each.read().producers.expire()
    written = len(topic.records)
    for _ in range(10):
        for each in (*others, other):
            each.read().producers.expire()
    assert len(topic.records) == written


def test_records_of_versions_without_read_positions_count_in_order():
    topic, gateway, _, third = three_gateways()
    for number in (30, 20):
        gateway.decide(number - 10, 10, (0,))
        key, record, used = topic.records.pop()
        fields = json.loads(record)
        del fields["seen"], fields["revision"]
        fields["writer"] = f"gateway of {number}"
        topic.records.append((key, json.dumps(fields).encode(), used))
    third.read()
    assert len(third.producers.kept) == 1
    assert not list(third.producers.kept.concurrent)


def many(topic, count):
    """State of many producers, as another gateway has written it."""
    writer = topic.gateway()
    for producer in range(1_000, 1_000 + count):
        writer.store(0, 10, (0, 1, 2), producer=producer)


def test_the_number_of_known_producers_is_not_limited(caplog):
    """Only their memory is bounded."""
    topic = Topic()
    many(topic, 300)
    third = topic.gateway(producers_max=10)
    third.read()
    assert [third.decide(10, 1, producer=producer).broker_first for producer in (1_000, 1_299)] == [
        7,
        7,
    ]
    assert third.producers.kept.evicted == 0


def test_a_producer_with_a_batch_in_flight_is_not_evicted():
    """Its record does not have the batch, which may fail: later batches would be confirmed."""
    gateway = Topic().gateway(producers_max=2)
    batch = gateway.decide(0, 10, (0,))
    assert gateway.producers.send(KEY, 0, batch) == 0
    for producer in range(1_000, 1_010):
        gateway.store(0, 10, (0,), producer=producer)
    lost = gateway.decide(10, 2, (0, 1))
    gateway.producers.on_response(KEY, 0, batch, NOT_ENOUGH_REPLICAS, Stored())
    assert gateway.producers.acknowledge(KEY, 0, lost) == TIMED_OUT


def test_a_producer_whose_last_batch_was_refused_is_not_evicted():
    """Later batches get 45, as from a broker: 59 would end librdkafka's producer."""
    gateway = Topic().gateway(producers_max=2)
    gateway.producers = Producers(
        now=lambda: 1.0, keep=gateway._keep, producers_max=2,
        look_up=lambda key: next((kept for of, *kept in gateway.topic.records if of == key), None),
    )  # fmt: skip
    gateway.store(0, 10, (0,))
    gateway.producers.refuse(KEY, ARRIVAL, 0, Range(10, 2))
    for producer in range(1_000, 1_010):
        gateway.store(0, 10, (0,), producer=producer)
    assert gateway.decide(12, 2) == OUT_OF_ORDER


def test_expired_state_is_forgotten_first():
    topic = Topic()
    many(topic, 50)
    third = topic.gateway(kept_max_bytes=80_000)
    third.read()
    third.now = 8 * 86_400.0
    writer = topic.gateway()
    writer.now = third.now
    for producer in range(2_000, 2_080):
        writer.store(0, 10, (0,), producer=producer)
    third.read()
    assert third.producers.kept.evicted == 0
    assert third.decide(10, 1, producer=2_000).broker_first == 9


def test_after_an_eviction_missing_batches_may_have_been_dropped():
    """Batches that are not stored may be dropped batches: they never get 45."""
    topic = Topic()
    many(topic, 100)
    third = topic.gateway(kept_max_bytes=20_000)
    third.read()
    assert third.producers.kept.evicted > 50
    assert 0 < third.producers.kept.bytes <= 20_000
    evicted = KEY._replace(producer_id=1_000)
    arrival = ARRIVAL._replace(producer_id=1_000)
    numbers = Range(10, 1)
    assert third.producers.queries.is_needed(evicted, 0, numbers, (), connection=1)
    third.producers.queries.on_last_sequence(evicted, arrival, 0, numbers, 6, connection=1)
    assert third.decide(10, 1, producer=1_000) == UNKNOWN_PRODUCER
    never = KEY._replace(producer_id=1)
    third.producers.queries.on_last_sequence(
        never, ARRIVAL._replace(producer_id=1), 0, numbers, 9, connection=1
    )
    assert third.decide(10, 1, producer=1).broker_first == 10


def test_after_an_eviction_all_gateways_continue_from_a_number_that_fits_by_chance():
    """Otherwise a gateway would send numbers that the broker takes for another batch."""
    topic = Topic()
    first, other = topic.gateway(), topic.gateway(kept_max_bytes=0)
    first.store(0, 10, (0, 1))
    first.decide(10, 2, (0, 1))
    first.store(12, 2)  # the broker has 0 to 9
    other.read()
    assert other.producers.kept.evicted
    # The client has no answers, and sends the last two batches again.
    other.find_last_sequence(10, 2, last=9)
    other.decide(10, 2, (0, 1))
    assert other.store(12, 2).broker_first == 10
    if first.read().needs_last_sequence(14, 2):
        first.find_last_sequence(14, 2, last=11)
    assert first.decide(14, 2).broker_first == 12


def test_evictions_are_counted_and_warned_about_once_in_a_while():
    topic = Topic()
    many(topic, 100)
    third = topic.gateway(kept_max_bytes=20_000)
    with capture_logs() as lines:
        third.read()
    [line] = lines
    assert line["event"].startswith("the state of producers takes too much memory")
    assert line["log_level"] == "warning"
    assert 0 < line["forgotten"] <= third.producers.kept.evicted


def test_a_producer_that_begins_is_not_affected_by_evictions():
    topic = Topic()
    many(topic, 100)
    third = topic.gateway(kept_max_bytes=20_000)
    third.read()
    assert third.store(0, 2, (0,)).broker_first == 0
    assert third.store(2, 2).broker_first == 1


def test_an_unreadable_record_is_not_taken_for_a_missing_record():
    topic, _, _, third = three_gateways()
    key, record, used = topic.records[-1]
    topic.records[-1] = (key, record[: record.index(b'"first"')] + b'"x', used)
    third.read()
    numbers = Range(10, 1)
    assert third.producers.queries.is_needed(KEY, 0, numbers, (), connection=1)
    third.producers.queries.on_last_sequence(KEY, ARRIVAL, 0, numbers, 8, connection=1)
    assert third.decide(10, 1) == UNKNOWN_PRODUCER


def test_records_of_producers_that_are_not_used_here_are_not_decoded(monkeypatch):
    topic = Topic()
    many(topic, 20)
    third, decoded, loads = topic.gateway(), [], json.loads
    monkeypatch.setattr(encoding.json, "loads", lambda text: decoded.append(text) or loads(text))
    third.read()
    assert decoded == []
    assert third.decide(10, 1, producer=1_000).broker_first == 7
    assert len(decoded) == 1
