"""A relay between clients and gateways: records their bytes, drops connections.

A connection that is dropped, or that no host accepts, is reset: clients do not take the end of a
stream for a network failure (`penstock.gateway.sessions.resets`). If a side closes or resets a
connection, the other side sees the same.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence

from penstock.gateway.sessions.resets import reset_on_close
from tests.loop_thread import LoopThread

FIRST_BYTES_S = 1.0
"""The time to wait for the first bytes of a client before a connection is reset."""


class Relay(LoopThread):
    """Forwards ports of 127.0.0.2 to the same ports of 127.0.0.1, or of several hosts.

    Each connection goes to a random host, and to another host if it is refused there.
    """

    def __init__(
        self,
        ports: range,
        *,
        record: bool = True,
        hosts: Sequence[str] = ("127.0.0.1",),
        chance: random.Random | None = None,
    ) -> None:
        super().__init__()
        self._ports = ports
        self._hosts = hosts
        self._chance = chance or random.Random()
        self._record = record
        self._writers: set[asyncio.StreamWriter] = set()
        self.responses = bytearray()
        self.requests: list[bytearray] = []

    def drop(self) -> None:
        """Drop all connections, with requests and responses in flight."""
        self.call(self._drop)

    def _drop(self) -> None:
        for writer in self._writers:
            _reset(writer)

    async def listen(self) -> list[asyncio.Server]:
        """Listen on each port."""
        return [
            await asyncio.start_server(lambda r, w, p=port: self._forward(r, w, p), "127.0.0.2",
                                       port)
            for port in self._ports
        ]  # fmt: skip

    async def _forward(self, reader, writer, port: int) -> None:
        there = await self._connect(port)
        if there is None:
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(reader.read(1), FIRST_BYTES_S)
            _reset(writer)
            return
        there_reader, there_writer = there
        self._writers |= {writer, there_writer}
        request_bytes = bytearray()
        self.requests.append(request_bytes)
        try:
            await asyncio.gather(
                self._pump(reader, there_writer, request_bytes),
                self._pump(there_reader, writer, self.responses),
            )
        finally:
            self._writers -= {writer, there_writer}
            writer.close()
            there_writer.close()

    async def _connect(self, port: int):
        for host in self._chance.sample(self._hosts, len(self._hosts)):
            try:
                return await asyncio.open_connection(host, port)
            except OSError:
                continue
        return None

    async def _pump(self, reader, writer, kept: bytearray) -> None:
        try:
            while data := await reader.read(65536):
                if self._record:
                    kept += data
                writer.write(data)
                await writer.drain()
        except OSError:
            _reset(writer)
        finally:
            writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    reset_on_close(writer.transport, True)
    writer.transport.abort()
