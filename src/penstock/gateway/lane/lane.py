"""Gives connections to the native threads, and takes them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from penstock.gateway.lane.availability import threads_of_lane
from penstock.gateway.lane.left_to_python import LeftToPython
from penstock.gateway.lane.table import Action, Rows, compiled
from penstock.gateway.lane.table_topics import TableTopics
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.process_usage import most_descriptors
from penstock.gateway.produce.gateway import KnownTopics
from penstock.gateway.sessions.between import Between, Figures, GivenBack

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sized

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.context.topic_names import TopicNames
    from penstock.gateway.lane.table import ForwardingGateway
    from penstock.gateway.sessions.session import Session
    from penstock.kafka.wire.requests.produce import TopicData

log = structlog.get_logger()

_LOG_EVERY_S: Final = 60.0
"""Without descriptors left, each connection is refused again and again."""
_SHARE_OF_DESCRIPTORS: Final = 3 / 8
"""Each connection takes two descriptors, and two more here. So many connections, those that are
here counted twice, take three quarters of all. Beyond that none comes here."""
_SHARE_OF_BUDGET: Final = 16
"""When the lane holds this part of the budget, connections that hold much are given back."""


class Owner(Protocol):
    """A connection of a client."""

    def take_back(self) -> None:
        """Take the connection back from the lane, if it has it."""

    def abort(self) -> None:
        """Close both connections at once."""


class Lane(KnownTopics):
    """The native threads of a gateway, and the connections that they have."""

    def __init__(
        self,
        native: Any,
        gateway: ForwardingGateway,
        loop: asyncio.AbstractEventLoop,
        *,
        connections: Sized,
        request_max_bytes: int,
        budget_bytes: int,
        threads: int | None = None,
    ) -> None:
        """Start the threads.

        Args:
            native: The native module.
            loop: The event loop, in which connections are taken back.
            connections: All connections of clients.
            request_max_bytes: `socket.request.max.bytes`.
            budget_bytes: The memory budget of all clients.
            threads: How many; by default as many as there are cores.

        Raises:
            OSError: There are no descriptors, or no threads, left.
        """
        self._native = native
        self._gateway = gateway
        self._loop = loop
        self._request_max_bytes = request_max_bytes
        self._lane = native.Lane(
            threads or threads_of_lane(),
            BOUNDS if gateway.counts is not None else (),
            budget_bytes // _SHARE_OF_BUDGET,
            gateway.clock(),
        )
        self._owners: dict[int, Owner] = {}
        self._rows: Rows = ()
        self._topics = TableTopics(native, gateway, ())
        self._reads_produce = False
        self._left_to_python = LeftToPython()
        self._logged_at = -_LOG_EVERY_S
        self._connections = connections
        self._connections_max = most_descriptors() * _SHARE_OF_DESCRIPTORS
        self.follow()
        loop.add_reader(self._lane.fileno(), self._take_ready)

    def follow(self) -> None:
        """Follow the routing table and the policies that are in force from now on."""
        self._rows = compiled(self._gateway)
        self._topics = TableTopics(self._native, self._gateway, self._rows)
        self._reads_produce = any(Action.KNOWN in actions for _, _, actions in self._rows)
        for owner in list(self._owners.values()):
            _take_back(owner)

    def forget(self, name: str | None) -> None:
        """Forget the policies of a topic, or of all topics: Python finds them again."""
        self._topics.forget(name)

    def forget_numbered(self, name: str | None) -> None:
        """Forget a topic, or all of them, because sequence numbers may have to change."""
        self._topics.forget_numbered(name)

    def forget_affected(self, affects: Callable[[str], bool]) -> None:
        """Forget the topics that a change of sequence numbers affects."""
        self._topics.forget_affected(affects)

    def follow_routes(self) -> None:
        """Follow the routing table if it has changed; otherwise connections stay."""
        if compiled(self._gateway) != self._rows:
            self.follow()

    def look_again(self) -> None:
        """Use the policies in force if they have changed. To be called every second."""
        self._log_errors()  # of the TLS library in the event loop
        self.follow_routes()
        self._topics.look_again()
        self._left_to_python.look(self._gateway.producers.topics.names, self._gateway.clock())

    def passed(
        self,
        topics: Iterable[TopicData],
        judged_topics: Iterable[tuple[TopicPlan, TopicData]],
        names: TopicNames,
    ) -> None:
        """Remember the topics of a request, and their policies, until `forget`."""
        if self._reads_produce:
            self._topics.passed(topics, judged_topics, names)

    def accepts(self, plan: TopicPlan, version: int, data: memoryview) -> bool:
        """Return whether a large batch is accepted that the threads could judge."""
        return self._reads_produce and self._topics.accepts(plan, version, data)

    def adopt(
        self,
        owner: Owner,
        session: Session,
        client: int,
        broker: int,
        from_client: bytes,
        from_broker: bytes,
        client_tls: Any | None = None,
        broker_tls: Any | None = None,
    ) -> int | None:
        """Give a connection away.

        Args:
            owner: Its owner until now, and after that.
            client: The client's socket; do not read it or write to it until it is taken back.
            broker: The broker's socket.
            from_client: Bytes that were just received from the client.
            from_broker: Bytes that were just received from the broker.
            client_tls: The native end of the TLS on the client's socket, like that socket.
            broker_tls: The same of the broker's socket.

        Returns:
            Its number here; None if it has to stay. Then nothing has changed.
        """
        if self._is_full(1):
            return None
        session_state = session.leave()
        if session_state is None:
            return None
        between, client_head, broker_head = session_state
        try:
            number: int | None = self._lane.adopt(
                self._topics.table,
                client,
                broker,
                between,
                client_head + from_client,
                broker_head + from_broker,
                self._request_max_bytes,
                session.valid_until,
                client_tls,
                broker_tls,
                _sender_of(session),
            )
        except OSError as error:
            self._log_refused(error)
            number = None
        if number is None:
            session.enter(between)
            session.put_back(client_head, broker_head)
            return None
        self._owners[number] = owner
        return number

    def make_room(self) -> None:
        """Take the first connection back to Python, if a new connection needs its descriptors."""
        if self._owners and self._is_full():
            _take_back(next(iter(self._owners.values())))

    def _is_full(self, more: int = 0) -> bool:
        return len(self._connections) + len(self._owners) + more > self._connections_max

    def take(self, number: int) -> GivenBack:
        """Take a connection back. Nobody else reads its sockets or writes to them any more."""
        del self._owners[number]
        between, *others = self._lane.take(number)
        return GivenBack(Between(*between), *others)

    def figures(self, number: int) -> Figures:
        """Return the state of a connection that the lane has."""
        return Figures(*self._lane.figures(number))

    def set_short(self, is_short: bool) -> None:
        """Say whether all clients hold so much that little is to be read of each at once."""
        self._lane.set_short(is_short)

    def _take_ready(self) -> None:
        for number in self._lane.ready():
            owner = self._owners.get(number)
            if owner is not None:
                _take_back(owner)
        self._log_errors()

    def _log_errors(self) -> None:
        for place in self._lane.errors():
            log.error("error of the native threads", at=place, count=self._lane.panics)

    def _log_refused(self, error: OSError) -> None:
        now = self._gateway.clock()
        if now - self._logged_at >= _LOG_EVERY_S:
            self._logged_at = now
            log.warning("connections are not forwarded natively", reason=str(error))

    @property
    def count(self) -> int:
        """How many connections the lane has."""
        return len(self._owners)

    def collect_counts(self) -> None:
        """Add the native counts to the gateway's counts."""
        counts = self._gateway.counts
        if counts is not None:
            counts.lane_errors = self._lane.panics
            for native_counts in self._lane.collect():
                counts.forwarded(*native_counts)
            if self._gateway.policies.observed is not None:
                self._gateway.policies.observed.collect_counts()

    def close(self) -> None:
        """End the threads. No connection may be the lane's."""
        self.collect_counts()
        self._loop.remove_reader(self._lane.fileno())
        self._lane.close()


def _sender_of(session: Session) -> tuple[str | None, str | None, int] | None:
    """Return the principal, the address and the number of a client; None if they are not UTF-8."""
    principal, address = session.authentication.principal, session.address
    try:
        f"{principal}{address}".encode()
    except UnicodeEncodeError:
        return None  # of a lone surrogate; Python has its batches judged
    return principal, address, session.number


def _take_back(owner: Owner) -> None:
    """Take a connection back; if that fails, close only this connection."""
    try:
        owner.take_back()
    except Exception:
        log.exception("closing a connection after an error of the gateway")
        owner.abort()
