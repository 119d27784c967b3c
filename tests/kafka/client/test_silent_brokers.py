"""Brokers that do not respond, or have moved: when a connection to them is given up."""

import asyncio
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from aiokafka.conn import BaseSaslAuthenticator

from penstock.kafka.client.connections import broker_connection, brokers
from penstock.kafka.client.connections.metadata import PartitionLeader
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.errors import BrokerUnreachableError, LoginError, UnsupportedVersionError
from penstock.kafka.client.protocol.produce import write_request
from penstock.kafka.client.writing.own_records import own_batch, own_source
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from tests.kafka.client.silent_broker import LARGE_BYTES, NODE, SMALL, Broker, connected, sent

pytestmark = pytest.mark.system
SCRAM = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="u" password="p";',
}
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="u" password="p";',
}


@pytest.fixture
def at_once(monkeypatch):
    """A broker has no time to respond."""
    monkeypatch.setattr(broker_connection, "_TIME_TO_RESPOND_S", 0.0)


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("at_once")
async def test_a_connection_is_given_up_with_a_letter_that_had_no_response_in_time():
    async with Broker() as broker, connected(broker) as connection:
        large = write_request(None, 10.0, {("orders.dead", 0): [bytes(LARGE_BYTES)]})
        letter = sent(connection, large)
        assert (await broker.next_request())[0] == 1
        await cancelled(letter)

        letter = sent(connection)
        number, respond = await broker.next_request()
        assert number == 2
        respond()
        await letter
        # Nothing of the first request is kept, to be sent when the broker reads again.
        broker.reads.set()
        assert await broker.end_of_connection() < LARGE_BYTES


@pytest.mark.usefixtures("at_once")
async def test_letters_after_an_abandoned_letter_get_a_retriable_error():
    async with Broker() as broker, connected(broker) as connection:
        first, second = sent(connection), sent(connection)
        for _ in range(2):
            await broker.next_request()
        await cancelled(first)
        with pytest.raises(BrokerUnreachableError, match="was lost") as caught:
            await second
        assert caught.value.retriable


@pytest.mark.usefixtures("at_once")
async def test_an_older_abandoned_letter_ends_the_connection_too():
    async with Broker() as broker, connected(broker) as connection:
        letters = [sent(connection) for _ in range(4)]
        responds = [(await broker.next_request())[1] for _ in letters]
        responds[0]()
        await letters[0]
        await cancelled(letters[2])  # the request before it may still get its response
        responds[1]()
        await letters[1]
        await cancelled(letters[3])
        letter = sent(connection)
        number, respond = await broker.next_request()
        assert number == 2
        respond()
        await letter


@pytest.mark.usefixtures("at_once")
async def test_a_connection_with_responses_is_kept():
    async with Broker() as broker, connected(broker) as connection:
        letters = [sent(connection) for _ in range(3)]
        responds = [(await broker.next_request())[1] for _ in letters]
        responds[0]()
        await letters[0]
        await cancelled(letters[2])
        for respond in responds[1:]:
            respond()
        await letters[1]
        letter = sent(connection)
        number, respond = await broker.next_request()
        respond()
        await letter
        assert number == 1


async def test_a_new_connection_is_not_given_up_with_a_letter_that_had_little_time_left():
    async with Broker() as broker, connected(broker) as connection:
        letters = [sent(connection) for _ in range(2)]
        responds = [(await broker.next_request())[1] for _ in letters]
        await cancelled(letters[0])
        for respond in responds:
            respond()
        await letters[1]


@pytest.mark.usefixtures("at_once")
async def test_a_response_that_is_abandoned_leaves_the_connection_as_it_is():
    async with Broker() as broker, connected(broker) as connection:
        pending = connection.begin(NODE, SMALL)
        _, respond = await broker.next_request()
        pending.abandon()
        following = connection.begin(NODE, SMALL)
        number, respond_too = await broker.next_request()
        respond()
        respond_too()
        await asyncio.to_thread(following.wait)
        assert number == 1


@pytest.mark.usefixtures("at_once")
async def test_a_pipeline_that_is_cancelled_gives_up_the_connection_to_a_silent_leader(monkeypatch):
    async with Broker() as broker, connected(broker) as connection:
        monkeypatch.setattr(connection, "leader", lambda *_, **__: PartitionLeader(NODE, 0))
        for expected_connection in (1, 2):
            pipeline = Pipeline(connection, transactional_id=None, max_bytes=2**20, timeout_s=30)
            pipeline.start(ProducerIdAndEpoch(7, 0))
            pipeline.put("t", 0, own_batch([(b"k", b"v")]), own_source("t", 0))
            assert not await asyncio.to_thread(pipeline.poll, 0.1)
            number, _ = await broker.next_request()
            assert number == expected_connection
            pipeline.cancel()
            assert pipeline.poll(0.0)
            if number == 1:
                await broker.end_of_connection()


async def test_a_request_goes_to_another_broker_while_the_first_is_silent(monkeypatch):
    monkeypatch.setattr(brokers, "_PATIENCE_S", 0.01)
    async with Broker() as silent, Broker() as other, connected(silent) as connection:
        pending = connection.begin(NODE, SMALL)
        _, respond = await silent.next_request()
        respond()
        await asyncio.to_thread(pending.wait)
        connection._brokers.learn({NODE: silent.address, NODE + 1: other.address})
        found = connection.begin_with_any(SMALL)
        number, _ = await silent.next_request()
        assert number == 1
        _, respond = await other.next_request()
        respond()
        assert await asyncio.to_thread(found.result, 30)


async def test_a_bootstrap_server_gets_a_request_before_all_known_brokers(monkeypatch):
    monkeypatch.setattr(brokers, "_PATIENCE_S", 0.2)
    async with contextlib.AsyncExitStack() as stack:
        vanished = [await stack.enter_async_context(Broker()) for _ in range(3)]
        for broker in vanished:
            broker.is_mute = True
        server = await stack.enter_async_context(Broker())
        connection = await stack.enter_async_context(connected(server))
        connection._brokers.learn(
            {node: broker.address for node, broker in enumerate(vanished, NODE)}
        )
        found = connection.begin_with_any(SMALL)
        _, respond = await server.next_request()
        respond()
        assert await asyncio.to_thread(found.result, 30)
        assert sum(broker.connections for broker in vanished) == 1


async def test_each_broker_is_tried_at_last_where_callers_have_little_time():
    async with contextlib.AsyncExitStack() as stack:
        vanished = [await stack.enter_async_context(Broker()) for _ in range(4)]
        for broker in vanished:
            broker.is_mute = True
        connection = await stack.enter_async_context(connected(vanished[0]))
        connection._brokers.learn(
            {node: broker.address for node, broker in enumerate(vanished[1:], NODE)}
        )
        for _ in vanished:  # in each call, one broker gets the request before the time is over
            with pytest.raises(BrokerUnreachableError, match="no answer"):
                await asyncio.to_thread(connection.send_raw_to_any, SMALL, 0.1)
        assert [broker.connections for broker in vanished] == [1, 1, 1, 1]


async def test_a_call_that_is_cancelled_leaves_no_request_that_waits_for_a_connection():
    async with Broker() as broker, connected(broker) as connection:
        broker.is_mute = True
        for _ in range(3):
            with pytest.raises(BrokerUnreachableError, match="no answer"):
                await asyncio.to_thread(connection.send_raw_to_any, SMALL, 0.05)
        async with asyncio.timeout(5):
            while connection._brokers._exchanges:
                await asyncio.sleep(0.01)


def refuse_logins(broker):
    broker.mechanisms = ()


def be_too_old(broker):
    broker.produce_versions = (0, 1)


@pytest.mark.parametrize(
    ("refuse", "error"), [(refuse_logins, LoginError), (be_too_old, UnsupportedVersionError)]
)
async def test_a_broker_that_refuses_leaves_a_request_to_the_others(refuse, error):
    async with (
        Broker() as refusing,
        Broker() as other,
        connected(refusing, **PLAIN) as connection,
    ):
        for broker in (refusing, other):
            broker.mechanisms = ("PLAIN",)
        refuse(refusing)
        connection._brokers.learn({NODE: refusing.address})
        with pytest.raises(error):
            await asyncio.to_thread(connection.send_raw_to_any, SMALL, 30)

        connection._brokers._settings = connection.settings._replace(servers=(other.address,))
        connection._brokers._failed_at.clear()
        found = connection.begin_with_any(SMALL)
        _, respond = await other.next_request()
        respond()
        assert await asyncio.to_thread(found.result, 30)
        assert refusing.connections > 1 or error is UnsupportedVersionError


async def test_requests_to_a_broker_that_accepts_no_connection_fail_together():
    limit = {"socket.connection.setup.timeout.ms": "200"}
    async with Broker() as broker, connected(broker, **limit) as connection:
        broker.is_mute = True
        letters = [sent(connection) for _ in range(4)]
        errors = await asyncio.gather(*letters, return_exceptions=True)
        assert {type(error) for error in errors} == {BrokerUnreachableError}
        assert len(set(map(id, errors))) == len(letters)
        assert broker.connections == 1
        broker.is_mute = False
        letter = sent(connection)
        number, respond = await broker.next_request()
        respond()
        await letter
        assert number == 2


async def test_a_letter_that_is_cancelled_leaves_the_broker_to_those_that_wait_for_it():
    async with Broker() as broker, connected(broker) as connection:
        letters = [sent(connection) for _ in range(2)]
        await asyncio.sleep(0)
        await cancelled(letters[0])
        _, respond = await broker.next_request()
        respond()
        await letters[1]


async def test_letters_go_in_the_order_in_which_they_waited_for_the_connection():
    """A producer's batches do, for one; its broker may know no sequence number yet."""
    async with Broker() as broker, connected(broker) as connection:
        order = []

        async def send(number):
            await connection._brokers._connected(NODE, "")
            order.append(number)

        letters = [asyncio.ensure_future(send(number)) for number in range(4)]
        while not connection._brokers._open:
            await asyncio.sleep(0)
        letters.append(asyncio.ensure_future(send(4)))
        await asyncio.gather(*letters)
        assert order == [0, 1, 2, 3, 4]


async def test_a_connection_that_nobody_waits_for_any_more_is_closed():
    async with Broker() as broker, connected(broker) as connection:
        side = connection._here
        letter = asyncio.ensure_future(side._attempted(broker.address))
        await asyncio.sleep(0)
        (attempt,) = side._attempts
        attempt.add_done_callback(lambda _: letter.cancel())  # just when there is a connection
        with pytest.raises(asyncio.CancelledError):
            await letter
        assert not attempt.cancelled()
        async with asyncio.timeout(5):
            await broker.end_of_connection()


async def test_closing_ends_an_attempt_to_connect():
    async with Broker() as broker, connected(broker) as connection:
        broker.is_mute = True
        letter = sent(connection)
        async with asyncio.timeout(5):
            while not broker.connections:
                await asyncio.sleep(0.01)
        await connection.close_here()
        with pytest.raises(BrokerUnreachableError, match="was closed"):
            await letter
        await broker.end_of_connection()


@pytest.mark.parametrize("here", [True, False])
async def test_the_system_checks_idle_connections(here):
    async with Broker() as broker, connected(broker) as connection:
        letter = sent(connection) if here else connection.begin(NODE, SMALL)
        _, respond = await broker.next_request()
        respond()
        await (letter if here else asyncio.to_thread(letter.wait))
        side = connection._here if here else connection._brokers
        (open_connection,) = side._open.values()
        found = open_connection._writer.get_extra_info("socket")
        assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("here", [True, False])
async def test_a_broker_that_has_moved_is_connected_at_its_new_address(here):
    async def response(connection):
        if here:
            await connection.exchange(NODE, SMALL)
        else:
            await asyncio.to_thread(connection.begin(NODE, SMALL).wait)

    async with Broker() as old, Broker() as new, connected(old) as connection:
        for broker in (old, new):
            connection._brokers.learn({NODE: broker.address})
            letter = asyncio.ensure_future(response(connection))
            _, respond = await broker.next_request()
            respond()
            await letter
        await old.end_of_connection()


async def test_logins_take_no_thread_of_the_event_loop(monkeypatch):
    goes_on = Event()
    monkeypatch.setattr(BaseSaslAuthenticator, "_step", lambda *_: goes_on.wait() and None)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with Broker() as broker, connected(broker, **SCRAM) as connection:
        letters = [
            asyncio.ensure_future(connection.exchange(NODE, SMALL, channel=str(number)))
            for number in range(3)
        ]
        try:
            for _ in letters:
                await asyncio.wait_for(broker.handshakes.get(), 30)
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "a thread"), 30) == "a thread"
        finally:
            goes_on.set()
            for letter in letters:
                letter.cancel()
            await asyncio.gather(*letters, return_exceptions=True)


async def test_a_login_that_blocks_does_not_hold_up_the_next(monkeypatch):
    continues = Event()
    blocked_steps = []

    def step(*_):
        if blocked_steps.pop():
            continues.wait(30)

    monkeypatch.setattr(BaseSaslAuthenticator, "_step", step)
    async with Broker() as broker, connected(broker, **SCRAM) as connection:
        letters = []
        try:
            for channel, is_blocked in (("a", True), ("b", False)):
                blocked_steps.append(is_blocked)
                exchange = connection.exchange(NODE, SMALL, channel=channel)
                letters.append(asyncio.ensure_future(exchange))
                await asyncio.wait_for(broker.handshakes.get(), 30)
                async with asyncio.timeout(1):
                    while blocked_steps:
                        await asyncio.sleep(0.001)
            number, respond = await broker.next_request()
            assert number == 2
            respond()
            await letters[1]
        finally:
            continues.set()
            for letter in letters:
                letter.cancel()
            await asyncio.gather(*letters, return_exceptions=True)
