"""Many connections that each send a prepared Produce request now and then; prints latencies.

`python busy.py HOST:PORT FRAME CONNECTIONS RATE SECONDS`: RATE requests a second over all
connections, one at a time on each. A latency counts from when a request was due, so a request that
waits for the previous response is late. Prints JSON: requests a second, and latencies in ms of the
last four fifths.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from load import error_code

WARM_UP = 0.2


async def send(
    address: tuple[str, int], frame: bytes, first_s: float, every_s: float, until: float
) -> list[tuple[float, float]]:
    """Send on one connection; return when each request was due, and how long it took."""
    reader, writer = await asyncio.open_connection(*address)
    taken: list[tuple[float, float]] = []
    due = first_s
    try:
        while due < until:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write(frame)
            body = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            if error := error_code(body):
                sys.exit(f"error {error}")
            taken.append((due, time.perf_counter() - due))
            due += every_s
    finally:
        writer.close()
    return taken


async def send_all(
    address: tuple[str, int], frame: bytes, count: int, rate: float, seconds: float
) -> dict[str, float]:
    """Send on all connections; return the rate and the latencies."""
    every_s = count / rate
    began = time.perf_counter() + 1.0  # all connections are there then
    until = began + seconds
    each = await asyncio.gather(
        *(
            send(address, frame, began + every_s * number / count, every_s, until)
            for number in range(count)
        )
    )
    taken = [latency for several in each for latency in several]
    last = max(due + took for due, took in taken)
    counted = sorted(took * 1000 for due, took in taken if due > began + seconds * WARM_UP)
    return {
        "requests": len(taken),
        "rate": len(taken) / (last - began),
        "p50": counted[len(counted) // 2],
        "p99": counted[len(counted) * 99 // 100],
    }


def main() -> None:
    """Run."""
    address, file, connections, rate, seconds = sys.argv[1:6]
    host, _, port = address.rpartition(":")
    frame = Path(file).read_bytes()
    sending = send_all((host, int(port)), frame, int(connections), float(rate), float(seconds))
    print(json.dumps(asyncio.run(sending)))


if __name__ == "__main__":
    main()
