"""A relay that looks at nothing: what moving the bytes costs on this machine, in the same loop.

`python relay.py HOST:PORT`: prints `ready PORT`, and moves bytes until it is ended.
"""

import asyncio
import sys

import uvloop


class End(asyncio.Protocol):
    """One side."""

    def __init__(self, upstream: str = "") -> None:
        self.upstream = upstream
        self.other: asyncio.Transport | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accepted or connected."""
        self.transport = transport
        if self.upstream:
            asyncio.get_running_loop().create_task(self.connect())

    async def connect(self) -> None:
        """Find the other side."""
        host, _, port = self.upstream.rpartition(":")
        loop = asyncio.get_running_loop()
        self.other, end = await loop.create_connection(End, host, int(port))
        end.other = self.transport
        self.other.write(self.early)

    def data_received(self, data: bytes) -> None:
        """Hand on."""
        if self.other is None:
            self.early += data
        else:
            self.other.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        """One side is gone: so is the other."""
        if self.other is not None:
            self.other.close()


async def main() -> None:
    """Run."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: End(sys.argv[1]), "127.0.0.1", 0)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
