"""Connections that brokers close: nothing is kept of them until Python's collector runs."""

import asyncio
import gc
import weakref

import pytest

from penstock.kafka.client.connections.broker_connection import BrokerConnection
from penstock.kafka.client.errors import ConnectionLostError
from tests.kafka.client.silent_broker import Broker, connected, sent

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def no_collection():
    """The collector is off: what ends here ends without it."""
    gc.disable()
    yield
    gc.enable()


async def until_freed(of):
    async with asyncio.timeout(6):
        while of() is not None:
            await asyncio.sleep(0.01)


async def test_the_reader_of_a_lost_connection_is_freed():
    async with Broker() as broker:
        connection = BrokerConnection(*broker.address, logins=None, client_id="c")
        await connection.connect()
        reader = weakref.ref(connection._read_task)
        broker.disconnect()
        async with asyncio.timeout(6):
            while connection.connected():
                await asyncio.sleep(0.01)
        del connection
        await until_freed(reader)


async def test_a_request_without_a_response_is_freed():
    async with Broker() as broker, connected(broker) as connection:
        pending = sent(connection)
        await broker.next_request()
        (open_connection,) = connection._here._open.values()
        waiter = weakref.ref(open_connection._requests[0][2])
        del open_connection
        broker.disconnect()
        with pytest.raises(ConnectionLostError):
            await pending
        del pending
        await until_freed(waiter)
