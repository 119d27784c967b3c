"""The objects of a connection are freed when it is closed, without the garbage collector."""

import asyncio
import gc
import weakref

import pytest
import uvloop

from penstock.configuration import load_configuration
from penstock.gateway.server import Gateway
from penstock.gateway.sessions.connection import ClientConnection
from penstock.gateway.sessions.session import Session
from tests.gateways import write_configuration
from tests.hostile.greedy import produce_frame, unfinished
from tests.kafka.records.encoding import encode_batch, values

POLICIES = """
from penstock.policy import *
class Judges(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value == b"bad":
            return InvalidRecordException("bad")
"""


@pytest.fixture
def uncollected():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def made(monkeypatch):
    """Collect references to all connections and sessions."""
    references = []

    def note(init):
        def noted(self, *arguments, **options):
            references.append(weakref.ref(self))
            init(self, *arguments, **options)

        return noted

    monkeypatch.setattr(ClientConnection, "__init__", note(ClientConnection.__init__))
    monkeypatch.setattr(Session, "__init__", note(Session.__init__))
    return references


async def send_and_close(address, sent, *, answered):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    if answered:
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()


@pytest.mark.parametrize("ends", ["at once", "halfway", "answered"])
def test_no_object_waits_for_the_garbage_collector(ends, kafka, topic, tmp_path, made, uncollected):
    frame = produce_frame(topic(), encode_batch(values(b"good", b"bad")))
    sent = {"at once": b"", "halfway": unfinished(2**20), "answered": frame}[ends]
    properties = {"record.validator.classes": "policies.Judges"}
    file = write_configuration(tmp_path, kafka.bootstrap_servers, 0, properties, POLICIES)

    async def attack() -> None:
        gateway = Gateway(load_configuration(file))
        try:
            address = await gateway.start()
            for _ in range(10):
                await send_and_close(address, sent, answered=ends == "answered")
            async with asyncio.timeout(60):
                while gateway.parts.connections or any(item() for item in made):
                    await asyncio.sleep(0.05)
        finally:
            await gateway.stop()

    uvloop.run(attack())
    assert len(made) >= 10
