"""Forwarders of connections: ports that move, and a load balancer with PROXY protocol headers."""

import asyncio
import struct
from collections.abc import Mapping
from ipaddress import ip_address

from tests.loop_thread import LoopThread

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(
    source: str, port: int, to: str = "", to_port: int = 9192, *, tlvs: bytes = b""
) -> bytes:
    """Return the header of version 2 for a client."""
    ip = ip_address(source)
    there = ip_address(to or ("127.0.0.1" if ip.version == 4 else "::1"))
    addresses = ip.packed + there.packed + struct.pack(">HH", port, to_port)
    family = 0x11 if ip.version == 4 else 0x21
    return SIGNATURE + struct.pack(">BBH", 0x21, family, len(addresses + tlvs)) + addresses + tlvs


class Forwarder(LoopThread):
    """Forwards ports of 127.0.0.2 to ports of 127.0.0.1; they can move."""

    host = "127.0.0.2"

    def __init__(self, ports: Mapping[int, int]) -> None:
        super().__init__()
        self._ports = dict(ports)
        self._writers: set[asyncio.StreamWriter] = set()

    async def listen(self) -> list[asyncio.Server]:
        """Listen on each port."""
        return [
            await asyncio.start_server(
                lambda reader, writer, port=port: self._forward(reader, writer, port),
                self.host,
                port,
            )
            for port in self._ports
        ]

    def move(self, ports: Mapping[int, int]) -> None:
        """Forward to other ports from now on, and close all connections."""
        self.call(self._move, dict(ports))

    def _move(self, ports: dict[int, int]) -> None:
        self._ports = ports
        for writer in self._writers:
            writer.close()

    def _greeting(self, _client_port: int) -> bytes:
        """Return what is sent before the bytes of a client."""
        return b""

    async def _forward(self, reader, writer, port: int) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(
                "127.0.0.1", self._ports[port]
            )
        except (OSError, KeyError):
            writer.close()
            return
        there_writer.write(self._greeting(writer.get_extra_info("peername")[1]))
        writers = {writer, there_writer}
        self._writers |= writers
        try:
            await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        finally:
            self._writers -= writers
            writer.close()
            there_writer.close()


class LoadBalancer(Forwarder):
    """Forwards ports of 127.0.0.3 to the same ports of 127.0.0.1, for a client of an address."""

    host = "127.0.0.3"

    def __init__(self, ports: range, source: str, *, tlvs: bytes = b"") -> None:
        super().__init__(dict(zip(ports, ports, strict=True)))
        self._source = source
        self._tlvs = tlvs

    def _greeting(self, client_port: int) -> bytes:
        return header(self._source, client_port, tlvs=self._tlvs)


async def _pump(reader, writer) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
