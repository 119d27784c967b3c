"""Connections that native threads forward: Python's duties towards them are fulfilled as before."""

import asyncio
import contextlib
import errno
import gc
import itertools
import socket
import struct
import sys
import uuid
import weakref
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest
import structlog
import uvloop
from confluent_kafka import Producer
from kio.static.primitive import i32, i32Timedelta, i64

from penstock import _native
from penstock.configuration import ConfigurationError, load_configuration
from penstock.engine.workers.supervisor import Supervisor
from penstock.gateway.lane.lane import Lane
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState
from penstock.gateway.server import Gateway
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.connection_age import ConnectionAge
from penstock.gateway.sessions.memory import LOW_USE_BYTES
from penstock.kafka.wire.schemas import load_request_schema
from tests.conftest import create_topic
from tests.gateway.sessions.talk import other
from tests.gateways import write_configuration
from tests.kafka.records.encoding import encode_batch, values
from tests.raw import parse_response, produce_request, produced, request_frame

pytestmark = pytest.mark.skipif(not hasattr(_native, "Lane"), reason="native threads need Linux")
POLICY = {"topics.judged-*.record.validation.policy": "yes",
          "record.validation.policy.class.name": "policies.Judges"}  # fmt: skip
POLICIES = """
from penstock.policy import *
class Judges(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value == b"bad":
            raise InvalidRecordException("bad")
"""
STATE_TOPIC = "produce.request.interceptors.state.topic"
WARM_UP = 20


class Client:
    """A raw client, which waits for each response."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.number = 0

    @classmethod
    async def connect(cls, address):
        return cls(*await asyncio.open_connection(*address))

    async def response(self):
        size = await self.reader.readexactly(4)
        return size + await self.reader.readexactly(int.from_bytes(size, "big"))

    async def exchange(self, frame):
        self.writer.write(frame)
        return await self.response()

    async def list_groups(self, count=WARM_UP):
        """Send requests that the gateway does not read."""
        for _ in range(count):
            self.number += 1
            answer = await self.exchange(other(self.number))
            assert answer[4:8] == self.number.to_bytes(4, "big")

    async def produce(self, topic, *payloads, acks=-1, **producer):
        """Produce one batch, perhaps of an idempotent producer; return the error code."""
        self.number += 1
        batch = encode_batch(values(*payloads), **producer)
        request = produce_request([(topic, [(0, batch)])], acks=acks)
        answer = await self.exchange(request_frame(request, self.number))
        return produced(parse_response(answer, 0, 9))[topic, 0].error_code


async def forwarded(gateway, send):
    """Send until a native thread has the connection; on a busy machine it may return soon."""
    for _ in range(2000):
        await send()
        if gateway.parts.lane.count == 1:
            return
    raise AssertionError("the connection is not forwarded by a native thread")


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
def run(kafka, tmp_path, monkeypatch):
    """Runs a test with a gateway and its client."""

    monkeypatch.delenv("PENSTOCK_NATIVE_LANE", raising=False)
    # Where gateways of other tests have left state of producers, every batch is Python's.
    own_state = {STATE_TOPIC: f"state-{uuid.uuid4().hex[:8]}"}

    def run(test, properties=(), policies=POLICIES, demanded=""):
        if demanded:
            monkeypatch.setenv("PENSTOCK_NATIVE_LANE", demanded)
        properties = {**own_state, **dict(properties)}
        file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, properties, policies)

        async def with_gateway():
            gateway = Gateway(load_configuration(file))
            try:
                client = await Client.connect(await gateway.start())
                try:
                    async with asyncio.timeout(120):
                        await test(gateway, client)
                finally:
                    client.writer.close()
                    with contextlib.suppress(OSError):
                        await client.writer.wait_closed()
            finally:
                await gateway.stop()

        uvloop.run(with_gateway())

    return run


def test_a_connection_is_handed_to_a_native_thread_and_taken_back(run, topic):
    name = topic()

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        versions = request_frame(load_request_schema(18, 0)(), 77)
        assert parse_response(await client.exchange(versions), 18, 0).api_keys
        await forwarded(gateway, client.list_groups)
        assert await client.produce(name, b"x") == 0
        client.writer.close()
        await until(lambda: not gateway.parts.connections)
        assert gateway.parts.lane.count == 0

    run(test)


def test_native_and_python_counts_agree(run, topic, monkeypatch):
    name = topic()
    found = []

    async def test(gateway, client):
        for _ in range(3):
            await client.list_groups()
            assert await client.produce(name, b"x") == 0
        families = {family.name: family for family in gateway.parts.counts.families()}
        totals = gateway.parts.counts.totals()
        times = families["penstock_request_seconds"].cells
        found.append(
            (
                families["penstock_requests_total"].values,
                {api: sum(cell.counts) for api, cell in times.items()},
                totals.requests,
                totals.client_bytes,
                totals.broker_bytes,
            )
        )
        assert min(cell.total_s for cell in times.values()) > 0

    for lane in ("0", "1"):
        monkeypatch.setenv("PENSTOCK_NATIVE_LANE", lane)
        run(test, {"metrics.listener": ":0"})
    assert found[0] == found[1]
    assert found[0][2] == 63


def test_a_reload_takes_effect_on_a_natively_forwarded_connection(run, topic, tmp_path, kafka):
    name = topic("judged")

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, name, b"bad"))
        file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, POLICY, POLICIES)
        await gateway.reload(load_configuration(file))
        assert await client.produce(name, b"bad") == 87
        assert await client.produce(name, b"good") == 0

    run(test)


def test_a_half_forwarded_request_closes_its_connection_when_the_first_policy_is_loaded(
    run, topic, tmp_path, kafka
):
    name = topic("judged")

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        request = produce_request([(name, [(0, encode_batch(values(b"bad" * 9999)))])])
        frame = request_frame(request, 99)
        client.writer.write(frame[: len(frame) // 2])
        await client.writer.drain()
        (connection,) = gateway.parts.connections
        await until(lambda: connection.missing_bytes)
        file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, POLICY, POLICIES)
        await gateway.reload(load_configuration(file))
        assert await client.reader.read() == b""
        await until(lambda: not gateway.parts.connections)

    run(test)


def with_schema(folder, required="id"):
    """Write a schema; return properties by which topics are judged by it."""
    (folder / "order.json").write_text(f'{{"required": ["{required}"]}}')
    return {
        "topics.judged-*.record.validation.policy": "order.json",
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
    }


def test_accepted_batches_are_counted_when_the_native_thread_judges_them(
    run, topic, tmp_path, monkeypatch
):
    name = topic("judged")
    found = []

    async def test(gateway, client):
        if gateway.parts.lane is not None:
            await forwarded(gateway, partial(client.produce, name, b'{"id": 1}'))
        families = {family.name: family for family in gateway.parts.counts.families()}
        times = families["penstock_judging_seconds"].cells

        def counted():
            totals = gateway.parts.counts.totals()
            return sum(totals.records.values()), sum(totals.judging)

        before = counted()
        for number in range(60):
            bad = number % 20 == 7
            code = await client.produce(name, b'{"id": 1}', b"{}" if bad else b'{"id": 2}')
            assert code == (87 if bad else 0)
        after = counted()
        found.append((after[0] - before[0], after[1] - before[1], set(times)))
        assert all(cell.total_s > 0 for cell in times.values())

    for lane in ("0", "1"):
        monkeypatch.setenv("PENSTOCK_NATIVE_LANE", lane)
        run(test, {"metrics.listener": ":0", **with_schema(tmp_path)})
    assert found[0] == found[1]
    assert found[0] == (120, 60, {"penstock.policies.JsonSchema"})


def test_a_batch_of_a_hundred_kilobytes_is_judged_by_a_thread(run, topic, tmp_path):
    name = topic("judged")
    good = [b'{"id": %d, "text": "%s"}' % (number, b"x" * 130) for number in range(600)]

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, name, *good))
        assert await client.produce(name, *good[:-1], b"{}") == 87

    run(test, with_schema(tmp_path))


@pytest.mark.parametrize("mode", ["enforce", "observe", "mark", "quarantine"])
def test_policies_that_a_reload_replaced_are_freed_without_the_collector(
    run, topic, tmp_path, kafka, mode
):
    name = topic("judged")
    properties = POLICY | {"topics.judged-*.penstock.mode": mode}

    def workers():
        return [weakref.ref(o) for o in gc.get_objects() if isinstance(o, Supervisor)]

    async def test(gateway, client):
        gc.collect()
        for _ in range(2 * WARM_UP):
            await client.produce(name, b"good")
            await client.produce(name, b"bad")
        replaced = workers()
        assert len(replaced) == (3 if mode == "observe" else 2)  # of topics, of records, beside
        file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, properties, POLICIES)
        gc.disable()
        try:
            await gateway.reload(load_configuration(file))
            await client.produce(name, b"good")
            await until(lambda: not any(supervisor() for supervisor in replaced))
        finally:
            gc.enable()

    run(test, properties)


def test_a_reload_changes_the_native_judge(run, topic, tmp_path, kafka):
    name = topic("judged")

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, name, b'{"id": 1}'))
        assert await client.produce(name, b'{"other": 1}') == 87
        properties = with_schema(tmp_path, "other")
        file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, properties, POLICIES)
        await gateway.reload(load_configuration(file))
        assert await client.produce(name, b'{"id": 1}') == 87
        await forwarded(gateway, partial(client.produce, name, b'{"other": 1}'))
        assert await client.produce(name, b'{"id": 1}') == 87

    run(test, with_schema(tmp_path))


def test_batches_without_a_policy_are_forwarded_natively_next_to_a_judged_topic(run, topic):
    judged, free = topic("judged"), topic("free")

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, free, b"bad"))
        assert await client.produce(judged, b"bad") == 87
        assert await client.produce(judged, b"good") == 0
        assert await client.produce(free, b"bad") == 0

    run(test, POLICY)


async def alter(gateway, topic, settings):
    """Set the topic level keys of a topic, as an admin client or another gateway does."""
    parts = gateway.parts
    topic_id = (await asyncio.to_thread(parts.cluster.ids, [topic]))[topic]
    await parts.topic_configs.store.put(topic, topic_id, settings)


async def stays_native(gateway, client, topic):
    """Produce; return whether the connection stayed with its native thread all the time."""
    (number,) = gateway.parts.lane._owners
    assert await client.produce(topic, b"x") == 0
    return list(gateway.parts.lane._owners) == [number]


def test_an_alteration_of_a_topic_leaves_the_connections_of_other_topics_where_they_are(run, topic):
    altered, free = topic("altered"), topic("free")

    async def test(gateway, client):
        other_client = await Client.connect(client.writer.get_extra_info("peername")[:2])
        assert await other_client.produce(altered, b"bad") == 0
        await forwarded(gateway, partial(client.produce, free, b"x"))
        await alter(gateway, altered, {"record.validation.policy": "yes"})
        assert await stays_native(gateway, client, free)
        assert await other_client.produce(altered, b"bad") == 87
        assert await stays_native(gateway, client, free)
        assert gateway.parts.lane._topics.table.names() == [free]
        await alter(gateway, altered, {"penstock.mode": "quarantine"})
        assert await stays_native(gateway, client, free)
        other_client.writer.close()

    run(test, POLICY)


def test_native_threads_keep_connections_when_the_state_of_producers_is_opened(run, topic):
    free = topic("free")

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, free, b"x"))
        assert not gateway.parts.keeps_decisions
        gateway.parts.open_decisions()
        await until(lambda: gateway.parts.keeps_decisions)
        assert await stays_native(gateway, client, free)

    run(test, POLICY)


DROPPING = {"produce.request.interceptors": "policies.NoDrop"}
DROPS = (
    POLICIES
    + """
class NoDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "^dropping-"
    def process_record(self, key, value, topic, partition, headers):
        if value == b"drop": raise ProduceRequestInterceptorSkipRecordException()
        return ProduceRequestInterceptorResult(key, value)
"""
)


def idempotent():
    """Return a function that produces as the next idempotent producer."""
    producer_id = uuid.uuid4().int % 2**40

    def produce(client, topic, first, *payloads):
        return client.produce(
            topic, *payloads, producer_id=producer_id, producer_epoch=0, base_sequence=first
        )

    return produce


def test_other_topics_are_forwarded_natively_while_a_topic_loses_records(
    run, topic, tmp_path, stored
):
    dropping, free, judged = topic("dropping"), topic("free"), topic("judged")
    produce = idempotent()

    async def test(gateway, client):
        assert await produce(client, dropping, 0, b"a", b"drop") == 0
        assert list(gateway.parts.producers.topics.names) == [dropping]
        for name, payload in ((free, b"x"), (judged, b'{"id": 1}')):
            await forwarded(gateway, partial(client.produce, name, payload))
        assert await produce(client, dropping, 2, b"b") == 0
        assert await client.produce(judged, b"{}") == 87
        await forwarded(gateway, partial(client.produce, free, b"x"))
        assert await produce(client, dropping, 3, b"drop", b"c") == 0

    run(test, {**DROPPING, **with_schema(tmp_path)}, DROPS)
    assert [value for _, _, value, _ in stored(dropping)] == [b"a", b"b", b"c"]


def test_records_that_another_gateway_dropped_are_known_natively(
    run, topic, tmp_path, kafka, admin, stored, monkeypatch
):
    monkeypatch.setattr("penstock.gateway.produce.producer_state.doubts.DOUBTED_S", 0.0)
    dropping, free = topic("dropping"), topic("free")
    state = {STATE_TOPIC: f"state-{uuid.uuid4().hex[:8]}"}
    (tmp_path / "there").mkdir()
    properties = {**DROPPING, **state}
    there = write_configuration(tmp_path / "there", kafka.bootstrap_servers, 0, properties, DROPS)
    produce = idempotent()

    async def test(gateway, client):
        other_gateway = Gateway(load_configuration(there))
        try:
            other_client = await Client.connect(await other_gateway.start())
            assert await produce(client, dropping, 0, b"a") == 0
            for name in (free, dropping):
                await forwarded(gateway, partial(client.produce, name, b"x"))
            assert await produce(other_client, dropping, 1, b"drop", b"b") == 0
            await until(lambda: gateway.parts.producers.has_topic(dropping))
            assert gateway.parts.lane.count == 1
            assert await produce(client, dropping, 3, b"c") == 0
            assert await produce(client, dropping, 4, b"d") == 0
            await forwarded(gateway, partial(client.produce, free, b"x"))
            assert gateway.parts.producers.translated == 2
            await asyncio.to_thread(gateway.parts.shared_producers.ahead, free)
            assert await client.produce(free, b"x") == 0
            assert gateway.parts.lane.count == 0
            other_client.writer.close()
        finally:
            await other_gateway.stop()

    create_topic(admin, state[STATE_TOPIC], config={"cleanup.policy": "compact,delete"})
    run(test, {**POLICY, **state})
    found = [value for _, _, value, _ in stored(dropping)]
    assert [value for value in found if value != b"x"] == [b"a", b"b", b"c", b"d"]


def test_an_old_connection_of_a_native_thread_is_closed_between_two_requests(run, monkeypatch):
    ended = []
    monkeypatch.setattr(ClientConnection, "end", noting(ClientConnection.end, ended))

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        (connection,) = gateway.parts.connections
        connection._age = ConnectionAge(0.0, 0.0)
        assert await client.reader.read() == b""
        assert ended == [0]
        client.writer.close()
        await until(lambda: not gateway.parts.connections)
        assert gateway.parts.lane.count == 0

    run(test)


def test_an_old_connection_of_a_native_thread_gets_its_awaited_response_first(run, topic, kafka):
    name = topic()

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        client.writer.write(waiting_fetch(name, 99))
        (connection,) = gateway.parts.connections
        await until(lambda: gateway.parts.lane.figures(connection._lane_number).unanswered)
        found = []
        connection._age = SimpleNamespace(
            has_come=lambda _, is_between: found.append(is_between()) or len(found) > 1
        )
        await until(lambda: len(found) > 1)
        assert found == [False, False]
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(name, b"x")
        assert await asyncio.to_thread(producer.flush, 60) == 0
        assert (await client.response())[4:8] == (99).to_bytes(4, "big")
        assert await client.reader.read() == b""

    run(test)


def noting(end, ended):
    """Return a method that notes how many requests were not answered when it was called."""

    def noted(connection):
        ended.append(connection._lane.figures(connection._lane_number).unanswered)
        end(connection)

    return noted


def waiting_fetch(name, number):
    """Return a Fetch request that gets its response once there is a record."""
    fetch = load_request_schema(1, 4)
    inside = sys.modules[fetch.__module__]
    partition = inside.FetchPartition(
        partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(1000)
    )
    topics = (inside.FetchTopic(topic=name, partitions=(partition,)),)
    wait = i32Timedelta(timedelta(seconds=100))
    return request_frame(fetch(max_wait=wait, min_bytes=i32(1), topics=topics), number)


def test_requests_in_flight_get_their_responses_when_the_gateway_stops(run, topic, kafka):
    awaited, name = topic(), topic()
    host, _, port = kafka.bootstrap_servers.rpartition(":")

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        client.writer.write(waiting_fetch(awaited, 1000))
        for number in range(1001, 1006):
            request = produce_request([(name, [(0, encode_batch(values(b"x")))])])
            client.writer.write(request_frame(request, number))
        (number,) = gateway.parts.lane._owners
        await until(lambda: gateway.parts.lane.figures(number).unanswered == 6)
        stopping = asyncio.create_task(gateway.stop())
        await until(lambda: not gateway.parts.lane.count)
        broker = await Client.connect((host, int(port)))
        assert await broker.produce(awaited, b"x") == 0
        broker.writer.close()
        for number in range(1000, 1006):
            assert (await client.response())[4:8] == number.to_bytes(4, "big")
        assert await client.reader.read() == b""
        await stopping

    run(test)


@pytest.mark.parametrize("how", ["reset", "half-closed"])
def test_a_client_that_disconnects_leaves_no_connection(run, how):
    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            given = client.writer.get_extra_info("socket")
            given.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.writer.transport.abort()
        else:
            client.writer.write(other(5))
            client.writer.write_eof()
            assert (await client.response())[4:8] == (5).to_bytes(4, "big")
        await until(lambda: not gateway.parts.connections)
        assert gateway.parts.lane.count == 0

    run(test)


def test_bytes_that_violate_the_protocol_close_the_connection(run):
    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        client.writer.write(b"\xff" * 12)
        assert await client.reader.read() == b""
        await until(lambda: not gateway.parts.connections)

    run(test)


def test_a_connection_that_is_paused_for_lack_of_memory_returns_to_python(run):
    async def test(gateway, client):
        await client.list_groups()
        (connection,) = gateway.parts.connections
        connection.pause("memory")
        assert gateway.parts.lane.count == 0
        connection.resume("memory")
        await forwarded(gateway, client.list_groups)

    run(test)


class Greedy:
    """Holds memory without a client."""

    held_bytes = remembered_bytes = 0
    has_stalled = has_unread = False

    def __init__(self, missing_bytes):
        self.missing_bytes = missing_bytes

    def pause(self, reason):
        """Does nothing."""

    def resume(self, reason):
        """Does nothing."""


def test_a_request_that_a_thread_has_mostly_received_continues_when_memory_is_short(run, topic):
    name = topic()

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, name, b"x"))
        (connection,) = gateway.parts.connections
        gateway.parts.budget.set_held_bytes(Greedy(0), gateway.parts.budget.max_bytes + 1)
        frame = long_request(name, 999)
        client.writer.write(frame[:100_000])
        await until(lambda: connection.held_bytes > 90_000)
        client.writer.write(frame[100_000:])
        assert (await client.response())[4:8] == (999).to_bytes(4, "big")

    run(test, POLICY)


def test_a_request_that_holds_less_in_python_than_in_a_thread_is_read_when_memory_is_short(
    run, topic
):
    name = topic()

    async def test(gateway, client):
        await forwarded(gateway, partial(client.produce, name, b"x"))
        (number,) = gateway.parts.lane._owners

        def is_read():
            count = gateway.parts.lane.count
            return (
                not count or gateway.parts.lane.figures(number).missing_bytes == len(frame) - sent
            )

        ahead = Greedy(missing_bytes=1)
        gateway.parts.budget.set_held_bytes(ahead, gateway.parts.budget.max_bytes + 1)
        frame = long_request(name, 999)
        sent = 0
        # A thread takes twice as much memory whenever it needs more.
        while (
            gateway.parts.lane.count
            and gateway.parts.lane.figures(number).held_bytes <= LOW_USE_BYTES
        ):
            client.writer.write(frame[sent : sent + 500])
            sent += 500
            await until(is_read)
        assert sent < LOW_USE_BYTES
        await until(lambda: not gateway.parts.lane.count)
        client.writer.write(frame[sent:])
        assert (await client.response())[4:8] == (999).to_bytes(4, "big")

    run(test, POLICY)


def long_request(name, number):
    request = produce_request([(name, [(0, encode_batch(values(bytes(110_000))))])])
    return request_frame(request, number)


def test_only_the_connection_that_cannot_be_taken_back_is_closed(run):
    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        (broken,) = gateway.parts.connections
        other_client = await Client.connect(client.writer.get_extra_info("peername"))
        while gateway.parts.lane.count < 2:
            await other_client.list_groups()
        broken._session.enter = None  # raises TypeError
        gateway.parts.lane.follow()
        assert gateway.parts.lane.count == 0
        assert await client.reader.read() == b""
        await other_client.list_groups()
        other_client.writer.close()

    run(test)


def test_an_error_of_a_thread_closes_its_connection_and_is_counted_and_logged(run):
    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        other_client = await Client.connect(client.writer.get_extra_info("peername"))
        (number,) = gateway.parts.lane._owners
        with structlog.testing.capture_logs() as events:
            gateway.parts.lane._lane.panic_with(number)
            assert await client.reader.read() == b""
        (event,) = [event for event in events if event["log_level"] == "error"]
        assert "threads.rs:" in event["at"]
        assert "record's content" not in str(events)
        families = {family.name: family for family in gateway.parts.counts.families()}
        assert families["penstock_lane_errors_total"].values == {(): 1}
        await forwarded(gateway, other_client.list_groups)
        other_client.writer.close()

    run(test, {"metrics.listener": ":0"})


def test_without_file_descriptors_python_forwards_connections_and_logs_it_once(run):
    async def test(gateway, client):
        gateway.parts.lane._lane = WithoutDescriptors(gateway.parts.lane._lane)
        with structlog.testing.capture_logs() as events:
            await client.list_groups(200)
        assert gateway.parts.lane._lane.refused > 1
        (event,) = events
        assert event["reason"] == "[Errno 24] no descriptors"

    run(test)


class WithoutDescriptors:
    """Threads that cannot take a connection."""

    def __init__(self, threads):
        self._threads = threads
        self.refused = 0

    def adopt(self, *_):
        self.refused += 1
        raise OSError(errno.EMFILE, "no descriptors")

    def __getattr__(self, name):
        return getattr(self._threads, name)


class NotedSenders:
    """Threads, and the clients whose connections they get."""

    def __init__(self, threads):
        self._threads = threads
        self.senders = []

    def adopt(self, *arguments):
        self.senders.append(arguments[-1])
        return self._threads.adopt(*arguments)

    def __getattr__(self, name):
        return getattr(self._threads, name)


def test_a_client_has_the_same_number_for_workers_as_in_python(run, monkeypatch):
    # The lane counts from 1.
    monkeypatch.setattr("penstock.gateway.sessions.session._numbers", itertools.count(1000))

    async def test(gateway, client):
        lane = gateway.parts.lane._lane = NotedSenders(gateway.parts.lane._lane)
        await forwarded(gateway, client.list_groups)
        (connection,) = gateway.parts.connections
        assert connection._session.number >= 1000
        assert {number for _, _, number in lane.senders} == {connection._session.number}

    run(test)


def test_a_connection_whose_every_request_is_judged_stays_in_python(run, topic, monkeypatch):
    name = topic("judged")
    monkeypatch.setattr(Lane, "take", None)  # it would have to be taken back

    async def test(gateway, client):
        for _ in range(50):
            assert await client.produce(name, b"bad") == 87
        assert gateway.parts.lane.count == 0

    run(test, POLICY)


def test_a_connection_is_paused_if_its_client_or_broker_does_not_read(run):
    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        (connection,) = gateway.parts.connections
        assert connection.state is ConnectionState.OPEN
        client.writer.transport.pause_reading()
        sent = 0
        while connection.state is ConnectionState.OPEN and gateway.parts.lane.count:
            client.writer.write(b"".join(map(other, range(sent, sent + 200))))
            sent += 200
            await asyncio.sleep(0)
        assert connection.state is ConnectionState.PAUSED
        client.writer.transport.resume_reading()
        for number in range(sent):
            assert (await client.response())[4:8] == number.to_bytes(4, "big")

    run(test)


def test_connections_stay_in_python_or_return_to_it_when_file_descriptors_run_short(
    run, monkeypatch
):
    # 3/8 of them: six, those natively twice
    monkeypatch.setattr("penstock.gateway.lane.lane.most_descriptors", lambda: 16)
    others = []

    async def test(gateway, client):
        await forwarded(gateway, client.list_groups)
        address = client.writer.get_extra_info("peername")
        try:
            for _ in range(7):
                assert gateway.parts.lane.count <= max(0, 6 - len(gateway.parts.connections))
                others.append(await Client.connect(address))
                await others[-1].list_groups(100)
            for each in (client, *others):
                await each.list_groups()
        finally:
            for each in others:
                each.writer.close()
        await until(lambda: len(gateway.parts.connections) == 1)
        await forwarded(gateway, client.list_groups)

    run(test)


@pytest.mark.parametrize("demanded", ["", "1"])
def test_if_no_thread_can_be_started_python_forwards_unless_threads_are_required(
    run, monkeypatch, demanded
):
    def no_thread(*_, **__):
        raise OSError(errno.EAGAIN, "no threads")

    async def test(gateway, client):
        await client.list_groups()
        assert gateway.parts.lane is None

    monkeypatch.setattr(Lane, "__init__", no_thread)
    with structlog.testing.capture_logs() as events:
        if demanded:
            with pytest.raises(ConfigurationError, match=r"_LANE=1, but .*no threads"):
                run(test, demanded=demanded)
        else:
            run(test)
    warned = [event.get("reason") for event in events if event["log_level"] == "warning"]
    assert ("[Errno 11] no threads" in warned) is not bool(demanded)


def test_a_gateway_without_native_forwarding_has_no_lane(run, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NATIVE_LANE", "0")

    async def test(gateway, client):
        await client.list_groups()
        assert gateway.parts.lane is None

    run(test)
