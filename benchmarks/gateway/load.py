"""Sends a prepared Produce request repeatedly over a connection; prints the duration.

`python load.py HOST:PORT FRAME COUNT IN_FLIGHT RATE`: RATE requests a second, or 0 for as fast as
IN_FLIGHT unanswered requests allow. Prints JSON: seconds, and latencies in ms where RATE is set.
"""

import json
import socket
import sys
import time
from collections import deque
from pathlib import Path


def error_code(body: bytes) -> int:
    """Return the error code of a Produce response of version 9 with one partition first."""
    # correlation id, tags, topics, name, partitions, index, error code
    at = 7 + body[6] - 1 + 5
    return int.from_bytes(body[at : at + 2], "big", signed=True)


def main() -> None:
    """Run."""
    address, file, count, in_flight, rate = sys.argv[1:6]
    frame = Path(file).read_bytes()
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader = sock.makefile("rb")
    latencies: list[float] = []

    def receive() -> None:
        body = reader.read(int.from_bytes(reader.read(4), "big"))
        if error := error_code(body):
            sys.exit(f"error {error}")

    start = time.perf_counter()
    if float(rate):
        for number in range(int(count)):
            due = start + number / float(rate)
            time.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            sock.sendall(frame)
            receive()
            latencies.append((time.perf_counter() - sent) * 1000)
    else:
        waiting: deque[None] = deque()
        for _ in range(int(count)):
            sock.sendall(frame)
            waiting.append(None)
            if len(waiting) >= int(in_flight):
                receive()
                waiting.popleft()
        for _ in waiting:
            receive()
    seconds = time.perf_counter() - start
    latencies.sort()
    print(
        json.dumps(
            {
                "seconds": seconds,
                "p50": latencies[len(latencies) // 2] if latencies else None,
                "p99": latencies[len(latencies) * 99 // 100] if latencies else None,
            }
        )
    )


if __name__ == "__main__":
    main()
