"""A proxy between a gateway and its broker: stops a request or response until it is released.

It can also refuse a request instead of the broker, and drop connections.
"""

import asyncio
import io
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from kio.serial import entity_reader, entity_writer

from penstock.kafka.wire.addresses import replace_in_slices
from penstock.kafka.wire.schemas import load_response_schema
from penstock.kafka.wire.slices import finish
from tests.gateways import wait_until
from tests.loop_thread import LoopThread
from tests.readdressed import is_readdressed
from tests.refusals import CLOSED, PRODUCE, Refusal, Rule

REQUEST, RESPONSE = "request", "response"
FETCH: Final = 1
METADATA: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
_LAST_RESPONSES_S = 5.0


class Gate:
    """Stops a frame, and all frames after it on its connection.

    If it stops `every` frame, it also stops frames of other connections: a client whose broker
    misses its heartbeats reconnects.
    """

    def __init__(
        self, api_key: int, kind: str, number: int, proxy: "Proxy", *, every: bool = False
    ) -> None:
        self._passes = (api_key, kind)
        self._before = number - 1
        self._every = every
        self._proxy = proxy
        self._reached = threading.Event()
        self._opened = asyncio.Event()
        self._delivers = True

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the frame has arrived."""
        assert self._reached.wait(timeout_s), f"{self._passes} did not occur"

    def open(self, *, deliver: bool = True) -> None:
        """Deliver the frame, or drop it."""
        self._delivers = deliver
        self._proxy.call(self._opened.set)

    async def pass_by(self, api_key: int, kind: str) -> bool:
        """Hold a frame if it is the right frame; return whether it is delivered."""
        if (api_key, kind) != self._passes or (self._reached.is_set() and not self._every):
            return True
        if self._before:
            self._before -= 1
            return True
        self._reached.set()
        await self._opened.wait()
        return self._delivers


@dataclass(eq=False)
class _Sent:
    """A request without a response yet."""

    frame: bytes
    refusal: Refusal | None = None
    response: asyncio.Future[bytes | None] = field(default_factory=asyncio.Future)
    """The broker's response: empty for acks=0, None if the broker closed before it."""

    def __post_init__(self) -> None:
        numbers = (self.frame[4:6], self.frame[6:8], self.frame[8:12])
        self.api_key, self.version, self.correlation_id = (
            int.from_bytes(number, "big", signed=True) for number in numbers
        )

    @property
    def goes_to_broker(self) -> bool:
        return self.refusal is None or self.refusal.rule.stored


class Proxy(LoopThread):
    """The address of a proxy to a broker; addresses in responses are replaced by the proxy's."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self.broker = _address(broker)
        self._others: tuple[Proxy, ...] = ()
        self._gates: list[Gate] = []
        self._refusals: list[Refusal] = []
        self._produced: list[bytes] = []
        self._connections: set[_Connection] = set()
        self._names_brokers = threading.Event()
        self._names_brokers.set()

    @property
    def address(self) -> str:
        """The bootstrap address for the gateway."""
        return f"{self.host}:{self.port}"

    def gate(self, api_key: int, kind: str, number: int = 1, *, every: bool = False) -> Gate:
        """Stop the n-th request or response of an API from now on; or every request or response."""
        made = Gate(api_key, kind, number, self, every=every)
        self._gates.append(made)
        return made

    def open_all(self, *, deliver: bool) -> None:
        """Open all gates, and forget them."""
        for gate in self._gates:
            gate.open(deliver=deliver)
        self._gates.clear()

    def refuse(self, content: bytes, rule: Rule) -> Refusal:
        """Refuse the next Produce request that contains the given bytes."""
        made = Refusal(content, rule, self.call)
        self._refusals.append(made)
        return made

    def refusal_of(self, frame: bytes) -> Refusal | None:
        """Return the refusal of a Produce request, if there is one."""
        if self._refusals:
            self._produced.append(frame)
        return next((refusal for refusal in self._refusals if refusal.refuses(frame)), None)

    def produced(self, content: bytes) -> int:
        """Count the Produce requests that contain the given bytes since the first refusal."""
        return sum(1 for frame in list(self._produced) if content in frame)

    def forget(self) -> None:
        """Forget all refusals and received requests."""
        self._refusals.clear()
        self._produced.clear()

    @contextmanager
    def without_brokers(self) -> Iterator[None]:
        """Remove all brokers from Metadata responses, as in those of a starting cluster."""
        self._names_brokers.clear()
        try:
            yield
        finally:
            self._names_brokers.set()

    @property
    def names_brokers(self) -> bool:
        """Whether Metadata responses have the broker's own list of brokers."""
        return self._names_brokers.is_set()

    def stand_with(self, others: "tuple[Proxy, ...]") -> None:
        """Replace the addresses of other brokers by those of their proxies."""
        self._others = others

    def replaced(self, host: str, port: int) -> tuple[str, int]:
        """Return the address that replaces the address of a broker."""
        for other in self._others:
            if other.broker == (host, port):
                return other.host, other.port
        return self.host, self.port

    def drop(self) -> None:
        """Drop all connections, with requests and responses in flight."""
        self.call(lambda: [connection.drop() for connection in self._connections])

    def settle(self) -> None:
        """Wait for the broker's responses to all requests of a gateway that has ended."""
        wait_until(lambda: not self._connections, what="the gateway's last requests")

    async def pass_by(self, api_key: int, kind: str) -> bool:
        """Hold a frame at the gates; return whether it is delivered."""
        return all([await gate.pass_by(api_key, kind) for gate in list(self._gates)])

    async def listen(self) -> list[asyncio.Server]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.host, self.port = server.sockets[0].getsockname()
        return [server]

    async def _connect(self, reader, writer) -> None:
        try:
            broker = await asyncio.open_connection(*self.broker)
        except OSError:
            writer.close()
            return
        connection = _Connection(self, (reader, writer), broker)
        self._connections.add(connection)
        try:
            with suppress(asyncio.CancelledError):  # at the end
                await connection.run()
        finally:
            self._connections.discard(connection)
            writer.close()
            broker[1].close()


class _Connection:
    """A connection of the gateway, with its connection to the broker."""

    def __init__(self, proxy: Proxy, gateway, broker) -> None:
        self._proxy = proxy
        self._from_gateway, self._to_gateway = gateway
        self._from_broker, self._to_broker = broker
        self._sent: deque[_Sent] = deque()
        self._to_deliver: asyncio.Queue[_Sent | None] = asyncio.Queue()
        self._gateway_is_gone = False

    @property
    def is_waiting(self) -> bool:
        """Whether a response of the broker is outstanding."""
        return any(sent.api_key != FETCH for sent in list(self._sent))

    def drop(self) -> None:
        """Close it at once."""
        self._to_gateway.transport.abort()
        self._to_broker.transport.abort()

    async def run(self) -> None:
        """Forward frames until the gateway has closed and the broker has responded or closed."""
        requests = asyncio.create_task(self._requests())
        matching = asyncio.create_task(self._match_responses())
        responses = asyncio.create_task(self._responses())
        await asyncio.wait({requests, responses}, return_when=asyncio.FIRST_COMPLETED)
        if self.is_waiting and not responses.done():
            await asyncio.wait({responses}, timeout=_LAST_RESPONSES_S)
        for task in (requests, matching, responses):
            task.cancel()

    async def _requests(self) -> None:
        closing: Refusal | None = None
        while frame := await _frame(self._from_gateway):
            sent = _Sent(frame)
            if not await self._proxy.pass_by(sent.api_key, REQUEST):
                continue
            if sent.api_key == PRODUCE:
                sent.refusal = self._proxy.refusal_of(frame)
            sent.refusal = closing or sent.refusal
            if sent.refusal and sent.refusal.rule == CLOSED:
                closing = sent.refusal  # what stands behind it is not read by anybody
            self._sent.append(sent)
            self._to_deliver.put_nowait(sent)
            if sent.goes_to_broker:
                self._to_broker.write(frame)
        self._gateway_is_gone = True

    async def _match_responses(self) -> None:
        """Match the broker's responses with the requests."""
        while frame := await _frame(self._from_broker):
            number = int.from_bytes(frame[4:8], "big", signed=True)
            for sent in self._without_response():
                is_answered = sent.correlation_id == number
                sent.response.set_result(frame if is_answered else b"")
                if is_answered:
                    break
        for sent in self._without_response():
            sent.response.set_result(None)
        self._to_deliver.put_nowait(None)

    def _without_response(self) -> list[_Sent]:
        return [sent for sent in self._sent if sent.goes_to_broker and not sent.response.done()]

    async def _responses(self) -> None:
        """Deliver responses in the order of the requests, until one of them is that none comes."""
        while sent := await self._to_deliver.get():
            response = await sent.response if sent.goes_to_broker else b""
            if sent.refusal and response is not None:
                response = await sent.refusal.response(sent.frame)
            if response is None:
                return
            delivers = await self._proxy.pass_by(sent.api_key, RESPONSE)
            self._sent.remove(sent)
            if response and delivers and not self._to_gateway.is_closing():
                self._to_gateway.writelines(self._readdressed(response, sent))
            if self._gateway_is_gone and not self.is_waiting:
                return

    def _readdressed(self, frame: bytes, sent: _Sent):
        if sent.api_key == METADATA and not self._proxy.names_brokers:
            return [_without_brokers(frame, sent.version)]
        if not is_readdressed(sent.api_key, sent.version):
            return [frame]
        return finish(
            replace_in_slices(
                frame,
                sent.api_key,
                sent.version,
                lambda _, host, port: self._proxy.replaced(host, port),
            )
        )


def _without_brokers(frame: bytes, version: int) -> bytes:
    """Return a Metadata response as brokers send it while no broker is known to run."""
    schema = load_response_schema(METADATA, version)
    header, size = entity_reader(schema.__header_schema__)(frame, 4)
    response, _ = entity_reader(schema)(frame, 4 + size)
    topics = tuple(
        replace(topic, partitions=tuple(map(_without_leader, topic.partitions)))
        for topic in response.topics
    )
    buffer = io.BytesIO()
    entity_writer(schema.__header_schema__)(buffer, header)
    entity_writer(schema)(buffer, replace(response, brokers=(), topics=topics))
    return len(buffer.getvalue()).to_bytes(4, "big") + buffer.getvalue()


def _without_leader(partition):
    code, leader = type(partition.error_code), type(partition.leader_id)
    return replace(partition, error_code=code(LEADER_NOT_AVAILABLE), leader_id=leader(-1))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def _frame(reader) -> bytes:
    """Read a frame including its length; empty at the end."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (OSError, asyncio.IncompleteReadError):
        return b""
