"""Clients that send a request slowly, or not to its end, and connect again when they are closed."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable

from tests.hostile.attacks import Target
from tests.hostile.greedy import Connections, place, unfinished

COUNT = 400
PART_BYTES = 300_000
SIZE = 1_000_000
CONNECT_AGAIN_S = 0.05


def silent(greedy: Connections, target: Target) -> None:
    """Send 300 KB of a request, and then nothing."""
    _send(greedy, target, PART_BYTES, 0, 0)


def a_byte_a_second(greedy: Connections, target: Target) -> None:
    """Send a byte a second."""
    _send(greedy, target, 1, 1, 1)


def below_the_rate(greedy: Connections, target: Target) -> None:
    """Send 300 KB of a request, and then a little less than the least rate."""
    _send(greedy, target, PART_BYTES, 2000, 0.5)


def above_the_rate(greedy: Connections, target: Target) -> None:
    """Send 300 KB of a request, and then a little more than the least rate."""
    _send(greedy, target, PART_BYTES, 2200, 0.5)


def steadily(greedy: Connections, target: Target) -> None:
    """Send a little more than the least rate, from the beginning."""
    _send(greedy, target, 1, 2200, 0.5)


ATTACKS: list[Callable[[Connections, Target], None]] = [
    silent,
    a_byte_a_second,
    below_the_rate,
    above_the_rate,
    steadily,
]


def _send(greedy: Connections, target: Target, first: int, part: int, every_s: float) -> None:
    """Send the first bytes of a request, and then a part of it again and again."""
    frame = unfinished(SIZE)
    host, port = place(target.address)
    context = ssl.create_default_context(cafile=target.trust) if target.trust else None

    async def attack() -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                try:
                    await _trickle(reader, writer, frame, first, part, every_s)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(CONNECT_AGAIN_S)

    async def attack_together() -> None:
        await asyncio.gather(*(attack() for _ in range(COUNT)))

    greedy.run(lambda: asyncio.run(attack_together()))


async def _trickle(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    frame: bytes,
    first: int,
    part: int,
    every_s: float,
) -> None:
    writer.write(frame[:first])
    closed = asyncio.ensure_future(reader.read())
    for start in range(first, len(frame), part or len(frame)):
        if part:
            writer.write(frame[start : start + part])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(closed), every_s or None)
        if closed.done():
            return
