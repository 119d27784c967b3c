"""Requests of handlers to the broker about topics."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

from penstock.gateway.context.handler_context import HandlerContext
from penstock.gateway.context.turns import Turns
from penstock.kafka.wire.errors import TOPIC_AUTHORIZATION_FAILED
from penstock.kafka.wire.requests import topics
from tests.kafka.wire.topic_answers import response, topic


class Broker:
    """A connection to a broker with a single response."""

    authentication = SimpleNamespace(principal=None)
    address = None

    def __init__(self, answer):
        self._answer = answer
        self._turns = Turns(asyncio.get_running_loop().call_soon)
        self.held = 0

    def send_request(self, make, on_response):
        make(1)
        asyncio.get_running_loop().call_soon(on_response, self._answer)

    def ids(self, names):
        return dict.fromkeys(names, UUID(int=9))

    def context(self):
        request = SimpleNamespace(client_id="client")
        gateway = SimpleNamespace(cluster=self, turns=self._turns)
        return HandlerContext(request, self, gateway, None, self._hold)

    def _hold(self, size):
        self.held += size


async def test_topic_ids_are_read_without_reading_partitions(monkeypatch):
    found = response(
        topic("a", UUID(int=1), 500),
        topic("denied", UUID(int=0), 0, TOPIC_AUTHORIZATION_FAILED),
        topic("unknown", UUID(int=0), 0, 3),
        topic("b", UUID(int=2), 3),
    )
    monkeypatch.setattr(topics, "found_in", None)  # looks at each partition
    broker = Broker(found)
    ids = await broker.context().topic_ids(["a", "b", "denied", "unknown"])
    assert ids == {"a": UUID(int=1), "b": UUID(int=2), "denied": UUID(int=9)}
    assert broker.held == len(found)
    assert await broker.context().topic_ids([]) == {}
