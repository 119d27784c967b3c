"""The attributes of a partition of a Produce request, and how long they are kept."""

import gc
import weakref

import pytest

from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.produce import request as produce_request
from penstock.gateway.produce import single_batch
from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
from penstock.gateway.produce.single_batch import SingleBatch
from penstock.kafka.wire.requests.produce import ProduceRequest
from tests import raw
from tests.gateway.produce.intercepted import DROPPED, Intercepted, batch, request
from tests.gateway.sessions.talk import Talk, produce_response
from tests.kafka.records.encoding import encode_batch, values

NO = refused(44, "no", "v")


def parts(*batches):
    data = ProduceRequest(
        raw.request_frame(
            raw.produce_request([("a", [(7, b"")]), ("b", list(enumerate(batches)))]), 1
        )
    )
    topic = ProduceTopic(data, 1, 1)
    return [ProducePartition(topic, i, part) for i, part in enumerate(topic.data.partitions)]


def test_a_partition_has_its_place_and_its_batch():
    first, second = parts(batch(b"x"), b"")
    assert (first.topic.name, first.number, first.position) == ("b", 0, (1, 0))
    assert (second.number, second.position) == (1, (1, 1))
    assert bytes(first.data) == batch(b"x")
    assert bytes(second.data) == b""


def test_the_producer_of_a_partition_is_read_once():
    (partition,) = parts(batch(b"x", b"y", first=3, epoch=2))
    assert partition.producer is partition.producer
    assert partition.producer is partition.idempotent_producer
    assert partition.producer[:4] == (5, 2, 3, 2)


@pytest.mark.parametrize("data", [b"", b"short", encode_batch(values(b"x"))])
def test_a_batch_without_a_producer_id_has_no_idempotent_producer(data):
    (partition,) = parts(data)
    assert partition.idempotent_producer is None


@pytest.fixture
def alive(monkeypatch):
    """The parts of requests that are still referenced, without the garbage collector."""

    class Watched(ProducePartition):
        __slots__ = ("__weakref__",)

        def __init__(self, *given):
            super().__init__(*given)
            found.add(self)

    class WatchedSingle(SingleBatch):
        __slots__ = ("__weakref__",)

        def __init__(self, *given):
            super().__init__(*given)
            found.add(self)

    found: weakref.WeakSet[Watched | WatchedSingle] = weakref.WeakSet()
    monkeypatch.setattr(produce_request, "ProducePartition", Watched)
    monkeypatch.setattr(single_batch, "SingleBatch", WatchedSingle)
    gc.disable()
    yield found
    gc.enable()


@pytest.mark.parametrize("make", [Talk, Intercepted])
@pytest.mark.parametrize("verdict", [ACCEPTED, NO, DROPPED])
def test_no_part_of_a_request_is_kept_after_its_response(make, verdict, alive):
    """Its many bytes must not wait for the garbage collector, which may take long."""
    talk = make()
    talk.session.client_data(request(1, batch(b"v")))
    assert len(alive) == 1
    talk.decide(verdict)
    if talk.broker.data:
        talk.session.upstream_data(produce_response(1, "judged"))
    assert talk.client.take()
    assert not alive


def test_no_part_of_a_request_is_kept_when_its_connection_closes(alive):
    talk = Talk()
    talk.session.client_data(request(1, batch(b"v")))
    assert len(alive) == 1
    talk.session.closed()
    talk.verdicts.clear()
    assert not alive
