"""Stands between a gateway and its broker: stops one request or response, for as long as wanted."""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple

from penstock.gateway.routing import may_hold_addresses
from penstock.wire.addresses import replace_addresses
from tests.gateways import wait_until

REQUEST, RESPONSE = "request", "response"
FETCH: Final = 1
_LAST_ANSWERS_S = 5.0


class Gate:
    """Stops one frame, and all that come behind it on its connection."""

    def __init__(self, api_key: int, kind: str, number: int, proxy: "Proxy") -> None:
        self._passes = (api_key, kind)
        self._before = number - 1
        self._proxy = proxy
        self._reached = threading.Event()
        self._opened = asyncio.Event()
        self._delivers = True

    def wait(self, timeout_s: float = 20.0) -> None:
        """Wait until the frame is there."""
        assert self._reached.wait(timeout_s), f"{self._passes} did not come"

    def open(self, *, deliver: bool = True) -> None:
        """Let it pass, or let it vanish."""
        self._delivers = deliver
        self._proxy.call(self._opened.set)

    async def pass_by(self, api_key: int, kind: str) -> bool:
        """Hold a frame if it is the one; tell whether it is delivered."""
        if (api_key, kind) != self._passes or self._reached.is_set():
            return True
        if self._before:
            self._before -= 1
            return True
        self._reached.set()
        await self._opened.wait()
        return self._delivers


class _Sent(NamedTuple):
    api_key: int
    version: int
    correlation_id: int


class Proxy:
    """A broker's address that leads through here; what it tells of itself leads here, too."""

    def __init__(self, broker: str) -> None:
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        self._gates: list[Gate] = []
        self._connections: set[_Connection] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self.call(self._ended.set)
        self._thread.join(10)

    @property
    def address(self) -> str:
        """Where the gateway is to look for its cluster."""
        return f"{self.host}:{self.port}"

    def gate(self, api_key: int, kind: str, number: int = 1) -> Gate:
        """Stop the n-th request of an API from now on, or the n-th response."""
        made = Gate(api_key, kind, number, self)
        self._gates.append(made)
        return made

    def open_all(self, *, deliver: bool) -> None:
        """Open all gates, and forget them."""
        for gate in self._gates:
            gate.open(deliver=deliver)
        self._gates.clear()

    def settle(self) -> None:
        """Wait until the broker has answered all that a gateway, which is gone, had sent."""
        wait_until(lambda: not self._connections, what="the gateway's last requests")

    def call(self, function) -> None:
        """Run something in the proxy's thread."""
        self._loop.call_soon_threadsafe(function)

    async def pass_by(self, api_key: int, kind: str) -> bool:
        """Hold a frame at the gates; tell whether it is delivered."""
        return all([await gate.pass_by(api_key, kind) for gate in list(self._gates)])

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.host, self.port = server.sockets[0].getsockname()
        self._ready.set()
        await self._ended.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.1)

    async def _connect(self, reader, writer) -> None:
        try:
            broker = await asyncio.open_connection(*self._broker)
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
    """One connection of the gateway, and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, gateway, broker) -> None:
        self._proxy = proxy
        self._from_gateway, self._to_gateway = gateway
        self._from_broker, self._to_broker = broker
        self._sent: deque[_Sent] = deque()
        self._gateway_is_gone = False

    @property
    def is_waiting(self) -> bool:
        """Whether the broker has yet to answer."""
        return any(sent.api_key != FETCH for sent in list(self._sent))

    async def run(self) -> None:
        """Pass frames on until the gateway is gone and the broker has answered, or is gone."""
        requests = asyncio.create_task(self._requests())
        responses = asyncio.create_task(self._responses())
        await asyncio.wait({requests, responses}, return_when=asyncio.FIRST_COMPLETED)
        if self.is_waiting and not responses.done():
            await asyncio.wait({responses}, timeout=_LAST_ANSWERS_S)
        requests.cancel()
        responses.cancel()

    async def _requests(self) -> None:
        while frame := await _frame(self._from_gateway):
            numbers = (frame[4:6], frame[6:8], frame[8:12])
            sent = _Sent(*(int.from_bytes(number, "big", signed=True) for number in numbers))
            if await self._proxy.pass_by(sent.api_key, REQUEST):
                self._sent.append(sent)
                self._to_broker.write(frame)
        self._gateway_is_gone = True

    async def _responses(self) -> None:
        while frame := await _frame(self._from_broker):
            number = int.from_bytes(frame[4:8], "big", signed=True)
            while self._sent[0].correlation_id != number:  # acks=0 is not answered
                self._sent.popleft()
            api_key, version, _ = self._sent[0]
            delivers = await self._proxy.pass_by(api_key, RESPONSE)
            self._sent.popleft()
            if delivers and not self._to_gateway.is_closing():
                self._to_gateway.writelines(self._readdressed(frame, api_key, version))
            if self._gateway_is_gone and not self.is_waiting:
                return

    def _readdressed(self, frame: bytes, api_key: int, version: int):
        if not may_hold_addresses(api_key, version):
            return [frame]
        here = (self._proxy.host, self._proxy.port)
        return replace_addresses(frame, api_key, version, lambda *_: here)


async def _frame(reader) -> bytes:
    """Read a frame, length included; nothing at the end."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (OSError, asyncio.IncompleteReadError):
        return b""
