"""What the handler of a request of topics or configs has to work with.

Handlers are coroutines: they ask the broker over the client's own connection, the policies and
the settings, one after the other, and return the response.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog

from penstock.wire import client_requests, topics
from penstock.wire.errors import NONE, TOPIC_AUTHORIZATION_FAILED
from penstock.wire.own_requests import read_response, write_request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from uuid import UUID

    from penstock.gateway.exchange import ConnectionContext
    from penstock.gateway.gateway_context import GatewayContext

    T = TypeVar("T")

_TIMES_BEHIND, _BEHIND_S = 40, 0.05

log = structlog.get_logger()


class Handler(Protocol):
    """Answers the requests of one API."""

    def __call__(self, context: RequestContext) -> Coroutine[object, object, bytes]:
        """Return the response's frame.

        Raises:
            WireError: The request or the broker's answer cannot be read.
        """


class RequestContext:
    """What a handler has to work with.

    Attributes:
        request: What the client asked.
        gateway: The gateway.
        connection: The client's connection to its broker.
    """

    def __init__(
        self,
        request: client_requests.ClientRequest,
        connection: ConnectionContext,
        transform: Callable[[bytes], Sequence[bytes | memoryview]] | None,
    ) -> None:
        self.request = request
        self.connection = connection
        self._transform = transform
        self.gateway: GatewayContext = connection.gateway

    @property
    def principal(self) -> str | None:
        """Who the client authenticated as, where that is known."""
        return self.connection.authentication.principal

    async def send(self, make: Callable[[int], bytes]) -> bytes:
        """Send a request of our own; give the response's frame.

        Args:
            make: Makes the request's frame from a correlation id.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def answered(frame: bytes) -> None:
            if not future.done():
                future.set_result(frame)

        self.connection.send_request(make, answered)
        return await future

    async def forward(self, frame: bytes | None = None) -> bytes:
        """Send the client's request, or another in its place; give the response for the client.

        Args:
            frame: The request's frame; the original unless given.
        """
        sent = self.request.frame if frame is None else frame
        answer = await self.send(
            lambda number: client_requests.request_with_correlation_id(sent, number)
        )
        answer = client_requests.response_with_correlation_id(answer, self.request.correlation_id)
        return answer if self._transform is None else b"".join(self._transform(answer))

    async def send_as_client(self, request: Any, answer: type[T]) -> T:
        """Send one of the library's requests under the client's name; give the response's body."""
        write = partial(write_request, request=request, client_id=self.request.client_id)
        return read_response(await self.send(write), answer)

    async def find_topics(self, names: Iterable[str]) -> list[topics.FoundTopic]:
        """Ask the cluster about topics, creating none."""
        names = sorted(names)
        if not names:
            return []
        write = partial(topics.metadata_request, names=names, client_id=self.request.client_id)
        return topics.metadata_response(await self.send(write))

    async def ids_of_existing(self, names: Iterable[str]) -> dict[str, UUID]:
        """Ask for the ids of topics that the controller knows: the broker may be a bit behind."""
        names = set(names)
        ids: dict[str, UUID] = {}
        for _ in range(_TIMES_BEHIND):
            ids |= await self.topic_ids(names - ids.keys())
            if ids.keys() == names:
                break
            await asyncio.sleep(_BEHIND_S)
        return ids

    async def topic_ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Ask the cluster for topics' ids; those that it does not tell are missing.

        Whoever may alter or describe a topic's configs need not be allowed to describe the
        topic: then the gateway's own principal asks.
        """
        ids: dict[str, UUID] = {}
        denied = []
        for topic in await self.find_topics(names):
            if topic.name is not None and topic.code == NONE:
                ids[topic.name] = topic.topic_id
            elif topic.name is not None and topic.code == TOPIC_AUTHORIZATION_FAILED:
                denied.append(topic.name)
        if denied:
            told = await asyncio.to_thread(self.gateway.cluster.ids, denied)
            ids |= {name: topic_id for name, topic_id in told.items() if topic_id is not None}
        return ids

    async def finish(self, coroutine: Coroutine[object, object, None]) -> None:
        """Do something to its end, also if the client's connection or the broker's is lost."""
        await asyncio.shield(self.gateway.run(coroutine))

    async def forward_changed(self, body: Any) -> Any:
        """Send the client's request with another body; give the body of the response."""
        return self.request.read_response(await self.forward(self.request.with_body(body)))
