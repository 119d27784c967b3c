"""The context in which handlers work.

A handler is a coroutine for the requests of one API. It may send requests to the broker over the
client's connection, and use policies and topic configs; it returns the response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import structlog

from penstock.kafka.wire.errors import NONE, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from penstock.kafka.wire.own_requests import framed_request, response_in_slices
from penstock.kafka.wire.requests import topics
from penstock.kafka.wire.requests.entities import write_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
    from uuid import UUID

    from penstock.gateway.context.exchange import Buffers, ConnectionContext, Transform
    from penstock.gateway.context.turns import Steps, Turns
    from penstock.kafka.cluster.metadata import ClusterMetadata
    from penstock.kafka.wire import client_requests
    from penstock.kafka.wire.slices import Slices

    T = TypeVar("T")

SLICE: Final = 250
"""How many entries are processed in one turn of the event loop."""
_LAG_RETRIES, _LAG_RETRY_S = 40, 0.05

log = structlog.get_logger()


class HandlerGateway(Protocol):
    """A gateway, as the requests of any handler see it."""

    @property
    def cluster(self) -> ClusterMetadata:
        """The metadata of the cluster, as the gateway's own principal sees it."""

    @property
    def turns(self) -> Turns:
        """Does long work in slices."""

    def run(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """Run a coroutine independently of the connections, for as long as the gateway runs."""


G_co = TypeVar("G_co", bound=HandlerGateway, covariant=True)


class HandlerContext(Generic[G_co]):
    """The context of a request for its handler.

    Attributes:
        request: The client's request.
        connection: The client's connection to its broker.
        gateway: The parts of the gateway that the handler uses.
        hold: Counts memory that the handler uses until it has responded; responses of the broker
            are counted already.
    """

    def __init__(
        self,
        request: client_requests.ClientRequest,
        connection: ConnectionContext,
        gateway: G_co,
        transform: Transform | None,
        hold: Callable[[int], None],
    ) -> None:
        """Make the context of a request.

        Args:
            request: The client's request.
            connection: The client's connection to its broker.
            gateway: The parts of the gateway that the handler uses.
            transform: Turns the broker's response into the client's.
            hold: Counts memory that the handler uses until it has responded.
        """
        self.request = request
        self.hold = hold
        self.connection = connection
        self._transform = transform
        self.gateway = gateway
        self._body: Any = None
        self._lag_retries = _LAG_RETRIES

    @property
    def principal(self) -> str | None:
        """The principal of the client; None if it is not known."""
        return self.connection.authentication.principal

    @property
    def address(self) -> str | None:
        """The address of the client; None if it is not known."""
        return self.connection.address

    async def body(self) -> Any:
        """Return the entity of the client's request.

        Raises:
            WireError: It cannot be read.
        """
        if self._body is None:
            self._body = await self.in_turns(self.request.read_body())
        return self._body

    async def send(self, make: Callable[[int], bytes], **options: int) -> bytes:
        """Send a request of the gateway's own over the client's connection.

        Args:
            make: Returns the frame of the request for a correlation id.
            options: See `ConnectionContext.send_request`.

        Returns:
            The frame of the response.
        """
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def on_response(frame: bytes) -> None:
            self.hold(len(frame))
            if not future.done():
                future.set_result(frame)

        self.connection.send_request(make, on_response, **options)
        return await future

    async def forward(self, frame: bytes | None = None) -> bytes:
        """Forward the client's request.

        Args:
            frame: The frame to send instead of the original one, with the same header.

        Returns:
            The frame of the response for the client.
        """
        (first, *others) = await self.forward_unjoined(frame)
        return b"".join((first, *others)) if others else bytes(first)

    async def forward_unjoined(self, frame: bytes | None = None) -> Buffers:
        """Forward the client's request; return the buffers of the response for the client."""
        request_frame = self.request.frame if frame is None else frame
        response = await self.send(
            lambda _: request_frame, correlation_id=self.request.correlation_id
        )
        if self._transform is None:
            return [response]
        result = self._transform(response)
        if not isinstance(result, Generator):
            return result
        self.hold(len(response))
        return await self.in_turns(result)

    def steps(self, size: int = SLICE) -> Steps:
        """Return a counter of steps, for work on the entries of a request or response."""
        return self.gateway.turns.steps(size)

    async def in_turns(self, slices: Slices[T]) -> T:
        """Do work that takes long in slices; return its result."""
        return await self.gateway.turns.run(slices)

    async def send_as_client(self, request: Any, response: type[T]) -> T:
        """Send a request of the gateway's own with the client's client id.

        Args:
            request: The request entity of the protocol library.
            response: The type of the response entity.

        Returns:
            The response entity.
        """
        body = await self.in_turns(write_in_slices(request))
        kind, client_id = type(request), self.request.client_id
        frame = await self.send(partial(framed_request, kind=kind, body=body, client_id=client_id))
        return await self.in_turns(response_in_slices(frame, response))

    async def find_topics(self, names: Collection[str]) -> list[topics.FoundTopic]:
        """Return the metadata of topics. No topic is created."""
        frame = await self.send_metadata(names) if names else None
        return [] if frame is None else await self.in_turns(topics.found_in(frame))

    async def send_metadata(self, names: Iterable[str], *, creating: bool = False) -> bytes:
        """Request the metadata of topics, version 12.

        Args:
            names: The names of the topics.
            creating: Whether topics that do not exist may be created.

        Returns:
            The frame of the response.
        """
        body = await self.in_turns(topics.metadata_body(names, creating=creating))
        client_id = self.request.client_id
        return await self.send(partial(topics.framed_metadata, body=body, client_id=client_id))

    async def find_existing(self, names: Collection[str]) -> list[topics.FoundTopic]:
        """Return the metadata of topics that exist at the controller; see `once_known`."""
        known_topics: list[topics.FoundTopic] = []
        unknown = names

        async def look_up() -> list[topics.FoundTopic]:
            nonlocal unknown
            missing_topics: list[topics.FoundTopic] = []
            for topic in await self.find_topics(unknown):
                (
                    missing_topics if topic.code == UNKNOWN_TOPIC_OR_PARTITION else known_topics
                ).append(topic)
            unknown = [topic.name for topic in missing_topics if topic.name is not None]
            return [*known_topics, *missing_topics]

        return await self.once_known(look_up, lambda _: not unknown)

    async def ids_of_existing(self, names: Iterable[str]) -> dict[str, UUID]:
        """Return the ids of topics that exist at the controller; see `once_known`."""
        names = set(names)
        ids: dict[str, UUID] = {}

        async def look_up() -> dict[str, UUID]:
            ids.update(await self.topic_ids(names - ids.keys()))
            return ids

        return await self.once_known(look_up, lambda found_ids: found_ids.keys() == names)

    async def once_known(
        self, request: Callable[[], Awaitable[T]], is_known: Callable[[T], bool]
    ) -> T:
        """Send a request about what exists at the controller; the broker may lag behind it.

        For all requests of a handler together, it waits two seconds at most: topics may have been
        deleted.

        Args:
            request: Sends it, and returns what the broker knows.
            is_known: Whether that is everything; if not, it is sent again for a while.
        """
        result = await request()
        while self._lag_retries and not is_known(result):
            self._lag_retries -= 1
            await asyncio.sleep(_LAG_RETRY_S)
            result = await request()
        return result

    async def topic_ids(self, names: Collection[str]) -> dict[str, UUID]:
        """Return the ids of topics, without those that are unknown.

        A client that may alter or describe the configs of a topic is not always authorized to
        describe the topic. In that case the gateway's own principal requests the id.
        """
        ids: dict[str, UUID] = {}
        denied = []
        # Their partitions are not read: there may be thousands.
        frame = await self.send_metadata(names) if names else None
        topic_entries = [] if frame is None else await self.in_turns(topics.names_in(frame))
        async for topic in self.steps().over(topic_entries):
            if topic.name is not None and topic.code == NONE:
                ids[topic.name] = topic.topic_id
            elif topic.name is not None and topic.code == TOPIC_AUTHORIZATION_FAILED:
                denied.append(topic.name)
        if denied:
            own = await asyncio.to_thread(self.gateway.cluster.ids, denied)
            ids |= {name: topic_id for name, topic_id in own.items() if topic_id is not None}
        return ids

    async def finish(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine to its end, even if the connection is lost in the meantime."""
        await asyncio.shield(self.gateway.run(coroutine))

    async def forward_changed(self, body: Any) -> Any:
        """Forward the client's request with another body; return the body of the response."""
        frame = await self.in_turns(self.request.with_body(body))
        return await self.read_response(await self.forward(frame))

    async def read_response(self, frame: bytes) -> Any:
        """Return the body of a response to the client's request.

        Raises:
            WireError: It cannot be read.
        """
        return await self.in_turns(self.request.read_response(frame))

    async def response(self, body: Any) -> bytes:
        """Return the frame of a response to the client's request."""
        return await self.in_turns(self.request.response(body))
