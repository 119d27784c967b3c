"""The end of transactions whose records were all dropped by interceptors (KIP-905 with KIP-890)."""

import datetime
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.static.primitive import i8, i16, i32Timedelta, i64

from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic, started_gateways
from tests.gateways import wait_until
from tests.integration.reading import read_topic, values_of
from tests.integration.transactional import POLICIES
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import RawClient, produce_request, produced

pytestmark = pytest.mark.since("4.0")  # EndTxn 5

DROPS = {"produce.request.interceptors": "policies.DropsDrop"}
INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, FENCED = 48, 51, 90
NOT_YET = {14, 15, 16, CONCURRENT_TRANSACTIONS}


class Coordinator:
    """A connection to the coordinator of transactional ids, directly or through a gateway."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    def begin(self, transactional_id: str, producer=(-1, -1), *, timeout_ms=60_000, once=False):
        """InitProducerId; return the error code and the producer."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=timeout_ms)),
            producer_id=i64(producer[0]),
            producer_epoch=i16(producer[1]),
        )
        found = self._settled(request, once=once)
        return int(found.error_code), (found.producer_id, found.producer_epoch)

    def start(self, transactional_id: str, **how):
        """Find the coordinator, which creates its topic the first time; return a new producer."""

        def is_found():
            found = self._client.call(
                FindCoordinatorRequest(key_type=i8(1), coordinator_keys=(transactional_id,))
            )
            return not found.coordinators[0].error_code

        wait_until(is_found, what="a coordinator")
        code, producer = self.begin(transactional_id, **how)
        assert code == 0
        return producer

    def end(self, transactional_id: str, producer, *, committed: bool):
        """EndTxn; return the error code and the producer of the next transaction."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=i64(producer[0]),
            producer_epoch=i16(producer[1]),
            committed=committed,
        )
        found = self._settled(request)
        return int(found.error_code), (found.producer_id, found.producer_epoch)

    def send(self, transactional_id: str, producer, topic: str, *found: bytes, sequence=0):
        """Produce a batch, which adds the partition; return the error code."""
        data = encode_batch(
            values(*found), producer_id=producer[0], producer_epoch=producer[1],
            base_sequence=sequence, transactional=True,
        )  # fmt: skip
        request = produce_request(
            [(topic, [(0, data)])], version=12, transactional_id=transactional_id
        )
        while True:
            code = int(produced(self._client.call(request))[topic, 0].error_code)
            if code not in NOT_YET:
                return code

    def _settled(self, request, *, once=False):
        while True:
            response = self._client.call(request)
            if once or int(response.error_code) not in NOT_YET:
                return response


@contextmanager
def coordinators(*addresses: str) -> Iterator[list[Coordinator]]:
    """Connect to each address."""
    clients = [RawClient(address) for address in addresses]
    try:
        yield [Coordinator(client) for client in clients]
    finally:
        for client in clients:
            client.socket.close()


def after(producer):
    """The producer of the next transaction."""
    return producer[0], producer[1] + 1


def committed(kafka, name):
    return values_of(read_topic(kafka.bootstrap_servers, name, isolation="read_committed"))


def test_the_commit_through_another_gateway(gateway, topic, kafka):
    name = topic()
    running = [gateway(DROPS, POLICIES) for _ in range(2)]
    with coordinators(*(replica.address for replica in running)) as (first, second):
        producer = first.start(name)
        assert first.send(name, producer, name, b"drop", b"drop too") == 0
        assert second.end(name, producer, committed=True) == (0, after(producer))
        # After a lost response a client sends the same again.
        assert second.end(name, producer, committed=True) == (0, after(producer))
        assert first.end(name, producer, committed=True) == (0, after(producer))

        producer = after(producer)
        assert second.send(name, producer, name, b"drop", b"kept") == 0
        assert first.end(name, producer, committed=True) == (0, after(producer))
        producer = after(producer)
        assert second.send(name, producer, name, b"drop") == 0
        assert first.end(name, producer, committed=False) == (0, after(producer))
        producer = after(producer)
        assert first.send(name, producer, name, b"drop") == 0
        assert second.end(name, producer, committed=True) == (0, after(producer))
        producer = after(producer)
        assert second.send(name, producer, name, b"kept, too") == 0
        assert first.end(name, producer, committed=True) == (0, after(producer))
    assert committed(kafka, name) == [b"kept", b"kept, too"]


def test_the_interceptor_is_switched_off_before_the_commit(gateway, topic, kafka):
    name = topic()
    running = gateway(DROPS, POLICIES)
    with coordinators(running.address) as (client,):
        producer = client.start(name)
        assert client.send(name, producer, name, b"drop") == 0
        text = running.file.read_text()
        running.file.write_text(text.replace("produce.request.interceptors=", "ignored="))
        running.process.send_signal(signal.SIGHUP)
        running.wait_for("reloaded")
        assert client.end(name, producer, committed=True) == (0, after(producer))


def aborted(client, transactional_id, topic, producer):
    """Its client has aborted it before."""
    assert client.send(transactional_id, producer, topic, b"lost") == 0
    assert client.end(transactional_id, producer, committed=False) == (0, after(producer))


def aborted_by_another(client, transactional_id, topic, producer):
    """Another producer of the transactional id aborts it, and then gets its epoch."""
    assert client.send(transactional_id, producer, topic, b"lost") == 0
    assert client.begin(transactional_id, once=True)[0] == CONCURRENT_TRANSACTIONS


def fenced(client, transactional_id, topic, producer):
    """Another producer fences a producer without records."""
    assert client.begin(transactional_id) == (0, after(producer))


def fenced_after_records(client, transactional_id, topic, producer):
    """Another producer fences a producer with records."""
    aborted_by_another(client, transactional_id, topic, producer)
    assert client.begin(transactional_id)[0] == 0


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("history", "code"),
    [(aborted, INVALID_TXN_STATE), (aborted_by_another, INVALID_TXN_STATE), (fenced, FENCED),
     (fenced_after_records, FENCED)],
)  # fmt: skip
def test_no_commit_of_an_aborted_or_fenced_transaction_succeeds(
    shared_gateway, topic, kafka, history, code
):
    """As without a gateway. A coordinator responds to an abort of the first two with a success."""
    name = topic()
    running = shared_gateway(DROPS, POLICIES)
    with coordinators(kafka.bootstrap_servers, running.address) as (direct, through):
        for number, ending in enumerate((direct, through)):
            transactional_id = f"{name}-{number}"
            producer = direct.start(transactional_id)
            history(direct, transactional_id, name, producer)
            assert ending.end(transactional_id, producer, committed=True) == (code, (-1, -1))
    assert committed(kafka, name) == []


@pytest.mark.slow
def test_no_commit_of_a_transaction_that_timed_out_succeeds(tmp_path):
    """The coordinator aborts it, and increments the epoch: it was not empty there."""
    interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with (
        LocalKafka(properties=interval) as kafka,
        started_gateways(kafka, tmp_path) as start,
        coordinators(start(DROPS, POLICIES).address) as (client,),
    ):
        create_topic(AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), "t")
        producer = client.start("lost", timeout_ms=500)
        assert client.send("lost", producer, "t", b"lost") == 0
        wait_until(lambda: "CompleteAbort" in states(kafka), what="its end")
        assert client.end("lost", producer, committed=True) == (INVALID_TXN_STATE, (-1, -1))
        assert client.end("lost", producer, committed=False) == (0, after(producer))
        assert committed(kafka, "t") == []


def states(kafka) -> set[str]:
    """The states of all transactional ids."""
    with RawClient(kafka.bootstrap_servers) as client:
        found = client.call(ListTransactionsRequest(state_filters=(), producer_id_filters=()))
    return {state.transaction_state for state in found.transaction_states}
