"""A process's connection to a cluster: its methods block, and any thread may call them.

Each process has a connection for each configuration: `connect`. A process that was forked makes
its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import FIRST_COMPLETED
from concurrent.futures import wait as wait_for
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import uvloop
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.metadata.v11.response import MetadataResponse
from kio.static.primitive import i8

from penstock.configuration.values import Address
from penstock.kafka.client.connections.brokers import Brokers
from penstock.kafka.client.connections.metadata import (
    NO_NODE,
    ClusterNodes,
    PartitionLeader,
    TopicLeaders,
    merged,
    metadata_request,
    read_brokers,
    read_nodes,
    read_topics,
)
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.connections.security import ConnectionSecurity
from penstock.kafka.client.connections.settings import read_settings
from penstock.kafka.client.errors import ClientError, NoAnswerError, response_error
from penstock.kafka.client.protocol.raw_requests import (
    RawRequest,
    RawResponse,
    raw_request,
    read_entity,
)
from penstock.kafka.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from concurrent.futures import Future
    from pathlib import Path

    from kio.schema.metadata.v11.request import MetadataRequest

    from penstock.kafka.client.connections.settings import Settings

T = TypeVar("T")
LEADER_NOT_AVAILABLE: Final = 5
_GROUP, _TRANSACTION = 0, 1
_CLOSES_WITHIN_S: Final = 5.0


class PendingResponse:
    """A response to a request that was sent."""

    def __init__(self, future: Future[RawResponse]) -> None:
        self._future = future

    def wait(self, timeout_s: float | None = None) -> RawResponse:
        """Wait for it. The connection's request timeout ends the wait.

        Args:
            timeout_s: Ends the wait earlier.

        Raises:
            BrokerUnreachableError: There is no connection, or no response in time.
            LoginError: The connection was refused.
            UnsupportedVersionError: The broker does not serve the version.
        """
        try:
            return _result_of(self._future, timeout_s)
        finally:
            del self  # or an error would keep this frame, which keeps the error

    def is_done(self) -> bool:
        """Return whether `wait` would return, or raise, at once."""
        return self._future.done()

    def is_done_within(self, timeout_s: float) -> bool:
        """Wait for a time at most; return whether `wait` would return, or raise, at once."""
        return bool(wait_for([self._future], timeout_s).done)

    def abandon(self) -> None:
        """Ignore the response; the connection continues."""
        self._future.cancel()


def first_done(pending: Iterable[PendingResponse], timeout_s: float) -> PendingResponse | None:
    """Wait for the first of some responses, or for a lost connection; None if the time is over."""
    responses = {response._future: response for response in pending}  # noqa: SLF001 - of this module
    finished = wait_for(responses, timeout_s, FIRST_COMPLETED).done
    return next((responses[future] for future in finished), None)


class Connection:
    """A cluster. Brokers are connected at the first request to them."""

    def __init__(self, properties: Mapping[str, str], file: Path) -> None:
        """Prepare; nothing is contacted. `connect` returns a connection that is shared.

        Args:
            properties: The keys after `upstream.`, as a Java client takes them.
            file: The configuration file; relative locations start at its folder.

        Raises:
            ConfigurationError: No connection can be made of the keys.
        """
        self.settings: Settings = read_settings(properties, file)
        self._process = os.getpid()
        self._loop = uvloop.new_event_loop()
        security = ConnectionSecurity(properties, file)
        self._brokers = Brokers(self.settings, security)
        self._here = Brokers(self.settings, security, self._brokers)
        self._topics: dict[str, TopicLeaders] = {}
        self._stale: set[str] = set()
        self._coordinators: dict[tuple[int, str], int] = {}
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="penstock-client", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, and end the thread. In a forked process it does nothing."""
        if not self._thread.is_alive():
            return
        try:
            self._start(self._brokers.close()).result(_CLOSES_WITHIN_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSES_WITHIN_S)
        self._loop.close()

    def retries(self, limit_s: float | None = None) -> Retries:
        """Return the retries of one operation.

        Args:
            limit_s: How long they last; `default.api.timeout.ms` by default, 0 for none.
        """
        return Retries(self.settings, limit_s=limit_s)

    def begin(
        self, node: int, request: RawRequest, *, channel: str = "", has_deadline: bool = False
    ) -> PendingResponse:
        """Send a request to a broker, and do not wait for the response.

        Args:
            channel: A broker handles one request of a connection at a time; requests of
                different channels use different connections.
            has_deadline: Whether a wait that ends earlier shows that the broker is silent, so that
                its connection is given up.
        """
        exchange = self._brokers.exchange(node, request, channel, has_deadline=has_deadline)
        return PendingResponse(self._start(exchange))

    async def exchange(self, node: int, request: RawRequest, *, channel: str = "") -> RawResponse:
        """Send a request to a broker and return the response, on the running event loop.

        The connections belong to that loop: all calls come from the same loop, and `close_here`
        closes them there. Nothing is passed between threads, which takes longer than to send.

        Cancel it when it has taken too long: if the broker has been silent, its connection is given
        up, other requests on it fail with `BrokerUnreachableError` and may be sent again.

        Args:
            node: The broker; `describe` must have found its address before.
            channel: As for `begin`.

        Raises:
            BrokerUnreachableError: There is no connection, or no response in time.
            LoginError: The connection was refused.
            UnsupportedVersionError: The broker does not serve the version.
        """
        response: RawResponse = await self._here.exchange(node, request, channel, has_deadline=True)
        return response

    async def close_here(self) -> None:
        """Close the connections of `exchange`."""
        await self._here.close()

    def send(
        self,
        node: int,
        request: Any,
        response: type[T],
        *,
        channel: str = "",
        timeout_s: float | None = None,
    ) -> T:
        """Send a request of the protocol library to a broker; return the response.

        Args:
            request: An entity of `kio.schema`.
            response: The class of the response, of the same version.
            channel: As for `begin`.
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            ClientError: There is no response. `retriable` is whether to try again.
            WireError: The response cannot be read.
        """
        has_deadline = timeout_s is not None
        raw = raw_request(request)
        return read_entity(
            self.begin(node, raw, channel=channel, has_deadline=has_deadline).wait(timeout_s),
            response,
        )

    def send_to_any(self, request: Any, response: type[T], *, timeout_s: float | None = None) -> T:
        """Send a request of the protocol library to any broker; return the response.

        Args:
            request: An entity of `kio.schema`.
            response: The class of the response, of the same version.
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            ClientError: There is no response. `retriable` is whether to try again.
            WireError: The response cannot be read.
        """
        return read_entity(self.send_raw_to_any(raw_request(request), timeout_s), response)

    def send_raw_to_any(self, request: RawRequest, timeout_s: float | None = None) -> RawResponse:
        """Send a request to any broker; return the response, for the caller to read.

        Args:
            request: With a version that every broker serves.
            timeout_s: As for `send_to_any`.

        Raises:
            ClientError: As for `send_to_any`.
        """
        return _result_of(self.begin_with_any(request), timeout_s)

    def begin_with_any(self, request: RawRequest) -> Future[RawResponse]:
        """Send a request to any broker, and do not wait for the response.

        Returns:
            The response, or the error that `send_to_any` raises.
        """
        return self._start(self._brokers.exchange_with_any(request))

    def send_to_coordinator(
        self,
        key: str,
        request: Any,
        response: type[T],
        *,
        transaction: bool = False,
    ) -> T:
        """Send a request of the protocol library to a coordinator; return the response.

        After an error code that means that it is not the coordinator, call `forget_coordinator`
        and try again.

        Args:
            key: The group id, or the transactional id.
            request: An entity of `kio.schema`.
            response: The class of the response, of the same version.
            transaction: Whether the key is a transactional id.

        Raises:
            ClientError: There is no coordinator, or no response.
            WireError: The response cannot be read.
        """
        node = self.coordinator(key, transaction=transaction)
        return self.send(node, request, response)

    def versions(self, node: int, api_key: int, *, channel: str = "") -> range:
        """Return the versions of an API that a broker serves; an empty range for none.

        Raises:
            ClientError: There is no connection.
        """
        return self._start(self._brokers.versions(node, api_key, channel)).result()

    def nodes(self) -> tuple[int, ...]:
        """Return the node ids of the brokers.

        Raises:
            ClientError: No broker responds.
            WireError: The response cannot be read.
        """
        return tuple(self.cluster().brokers)

    def cluster(self, timeout_s: float | None = None) -> ClusterNodes:
        """Request the cluster's id, its controller, and the addresses of its brokers.

        Args:
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            ClientError: No broker responds, or one that knows none: a cluster that restarts may
                name no broker for a while.
            WireError: The response cannot be read.
        """
        nodes = read_nodes(
            self.send_to_any(metadata_request(()), MetadataResponse, timeout_s=timeout_s)
        )
        if not nodes.brokers:
            raise response_error(LEADER_NOT_AVAILABLE, "the cluster", "it names no broker")
        self._brokers.learn(nodes.brokers)
        return nodes

    def describe(
        self, topics: Iterable[str], timeout_s: float | None = None
    ) -> dict[str, TopicLeaders]:
        """Request the metadata of topics, by name; each has an error code, or the rest.

        The metadata of leaders and brokers is refreshed by one request, which is not retried.

        Args:
            topics: The names of topics.
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            ClientError: No broker responds.
            WireError: The response cannot be read.
        """
        return _result_of(self.begin_describe(topics), timeout_s)

    def begin_describe(self, topics: Iterable[str]) -> Future[dict[str, TopicLeaders]]:
        """Request the metadata of topics as `describe` does, and do not wait for them.

        Returns:
            The metadata of the topics, or the error that `describe` raises.
        """
        return self._start(self._describe(metadata_request(topics)))

    async def _describe(self, request: MetadataRequest) -> dict[str, TopicLeaders]:
        answer = await self._brokers.exchange_with_any(raw_request(request))
        response = read_entity(answer, MetadataResponse)
        self._brokers.learn(read_brokers(response))
        topics = {
            name: merged(self._topics.get(name), topic)
            for name, topic in read_topics(response).items()
        }
        self._topics.update((name, topic) for name, topic in topics.items() if not topic.code)
        self._stale.difference_update(topics)
        return topics

    def topic(
        self, name: str, *, refresh: bool = False, timeout_s: float | None = None
    ) -> TopicLeaders:
        """Return a topic's metadata; they are requested the first time.

        Args:
            refresh: Request them again.
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            DeniedError: The ACLs do not allow it.
            ResponseError: There is no such topic, for another code.
            ClientError: No broker responds.
            WireError: The response cannot be read.
        """
        cached_topic = self._topics.get(name)
        if cached_topic is not None and name not in self._stale and not refresh:
            return cached_topic
        topic = self.describe([name], timeout_s).get(name)
        if topic is None:
            raise response_error(UNKNOWN_TOPIC_OR_PARTITION, f"topic {name}")
        if topic.code:
            raise response_error(topic.code, f"topic {name}")
        return topic

    def known_leaders(self, topic: str) -> Mapping[int, PartitionLeader] | None:
        """Return a topic's leaders as far as they are known; None where they have to be requested.

        It does not block.
        """
        topic_leaders = self._topics.get(topic)
        if topic_leaders is None or topic in self._stale:
            return None
        return topic_leaders.leaders

    def refresh(self, topic: str) -> None:
        """Let the next look-up of a topic's leaders send a request to the cluster."""
        self._stale.add(topic)

    def leader(
        self, topic: str, partition: int, *, timeout_s: float | None = None
    ) -> PartitionLeader:
        """Return a partition's leader.

        Args:
            timeout_s: How long to wait, if that is less than the request timeout.

        Raises:
            ResponseError: There is no such partition, or it has no leader now (5, retriable).
            ClientError: No broker responds.
            WireError: The response cannot be read.
        """
        leaders = self.topic(topic, timeout_s=timeout_s).leaders
        subject = f"topic {topic}, partition {partition}"
        if partition not in leaders:
            raise response_error(UNKNOWN_TOPIC_OR_PARTITION, subject)
        leader = leaders[partition]
        if leader.node == NO_NODE:
            self.refresh(topic)
            raise response_error(LEADER_NOT_AVAILABLE, subject)
        return leader

    def coordinator(self, key: str, *, transaction: bool = False) -> int:
        """Return the node of a coordinator; retry while there is none yet.

        Args:
            key: The group id, or the transactional id.
            transaction: Whether the key is a transactional id.

        Raises:
            DeniedError: The ACLs do not allow it.
            ClientError: There is no coordinator, or no broker responds, until the time is over.
            WireError: The response cannot be read.
        """
        kind = _TRANSACTION if transaction else _GROUP
        cached_node = self._coordinators.get((kind, key))
        if cached_node is not None:
            return cached_node
        retries = self.retries()
        while True:
            try:
                node = self._find_coordinator(kind, key)
            except ClientError as error:
                retries.after(error)
            else:
                self._coordinators[kind, key] = node
                return node

    def forget_coordinator(self, key: str, *, transaction: bool = False) -> None:
        """Forget the coordinator: the next request looks it up."""
        self._coordinators.pop((_TRANSACTION if transaction else _GROUP, key), None)

    def _find_coordinator(self, kind: int, key: str) -> int:
        request = FindCoordinatorRequest(key=key, key_type=i8(kind))
        response = self.send_to_any(request, FindCoordinatorResponse)
        if response.error_code:
            name = "the transactional id" if kind else "the group"
            raise response_error(int(response.error_code), f"the coordinator of {name} {key}")
        self._brokers.add(int(response.node_id), Address(response.host, int(response.port)))
        return int(response.node_id)

    def _start(self, exchange: Coroutine[Any, Any, T]) -> Future[T]:
        if self._process != os.getpid():
            # Its thread was not forked: the response would never come.
            exchange.close()
            raise RuntimeError("a connection to Kafka was used in a forked process; call connect()")
        return asyncio.run_coroutine_threadsafe(exchange, self._loop)


def _result_of(future: Future[T], timeout_s: float | None) -> T:
    """Wait for a result, with an error that refers to no future: both would stay as a cycle."""
    try:
        return future.result(timeout_s)
    except TimeoutError:
        future.cancel()
        raise NoAnswerError(f"no answer within {timeout_s:g} s") from None
    finally:
        del future


def connect(properties: Mapping[str, str], file: Path) -> Connection:
    """Return this process's connection for a configuration; it is closed when the process ends.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: No connection can be made of the keys.
    """
    key = (frozenset(properties.items()), str(file))
    with _lock:
        if key not in _connections:
            _connections[key] = Connection(properties, file)
        return _connections[key]


def close_all() -> None:
    """Close this process's connections."""
    with _lock:
        closing = list(_connections.values())
        _connections.clear()
    for connection in closing:
        connection.close()


def _forked() -> None:
    """Leave a parent's connections alone: the sockets and the epoll instance are shared with it.

    They stay referenced, so that nothing closes them here.
    """
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    _inherited.extend(_connections.values())
    _connections.clear()


_connections: dict[tuple[frozenset[tuple[str, str]], str], Connection] = {}
_inherited: list[Connection] = []
_lock = threading.Lock()
os.register_at_fork(after_in_child=_forked)
atexit.register(close_all)
