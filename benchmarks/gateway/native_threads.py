"""Measures the rate of two native threads and of one: `make bench-threads`.

Eight connections send prepared Produce requests, each with a batch of 16 KB that is compressed with
lz4. A native thread decompresses it and judges it by a JSON Schema. A separate process sends the
requests and answers them, which takes a small part of the time, so that neither limits the threads.
Each round runs both, interleaved; medians are printed. Bounded: half a minute; needs two cores.
"""

import os
import selectors
import socket
import statistics
import sys
import tempfile
import time
from multiprocessing import Process
from pathlib import Path

from bench import SCHEMA, batch
from rich.console import Console
from rich.table import Table
from tests.gateways import write_configuration
from tests.raw import produce_request, request_frame

from penstock import _native
from penstock.configuration import load_configuration
from penstock.engine.inline import InlineJudge
from penstock.engine.plans.plan import Plan

CONNECTIONS, UNANSWERED, ROUNDS, SECONDS = 8, 20, 5, 3.0
PRODUCE, WHOLE = 0, 3
RESPONSE = bytes.fromhex("00000007 00 02 02 74 02" + "00" * 32 + "01 01 00 00000000 00")
ANSWER = len(RESPONSE).to_bytes(4, "big") + RESPONSE
NOTHING_BETWEEN = (0, False, None, 0, [], False)


def connected() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.setblocking(False)
    return near, far


class Peer:
    """A client and its broker, seen from outside of a thread."""

    def __init__(self, client: socket.socket, broker: socket.socket, frame: bytes) -> None:
        self.client, self.broker = client, broker
        self.frame = frame
        self.unsent = memoryview(frame * UNANSWERED)
        self.received = self.answered = 0

    def write(self) -> None:
        """Send requests while the socket takes them."""
        while self.unsent:
            try:
                self.unsent = self.unsent[self.client.send(self.unsent) :]
            except BlockingIOError:
                return

    def requests(self, room: bytearray) -> None:
        """Answer the requests that have arrived as a whole."""
        before = self.received // len(self.frame)
        self.received += self.broker.recv_into(room)
        self.broker.send(ANSWER * (self.received // len(self.frame) - before))

    def responses(self, room: bytearray) -> None:
        """Send a request for each response."""
        before = self.answered // len(ANSWER)
        self.answered += self.client.recv_into(room)
        more = self.answered // len(ANSWER) - before
        self.unsent = memoryview(bytes(self.unsent) + self.frame * more)
        self.write()


def send_and_answer(ends: list[tuple[socket.socket, socket.socket]], frame: bytes) -> None:
    """Send requests and answer them, until the process is ended."""
    room = bytearray(2**20)
    with selectors.DefaultSelector() as waiting:
        for client, broker in ends:
            peer = Peer(client, broker, frame)
            waiting.register(broker, selectors.EVENT_READ, peer.requests)
            waiting.register(client, selectors.EVENT_READ, peer.responses)
            peer.write()
        while True:
            for key, _ in waiting.select():
                key.data(room)


def judge(_native, folder: Path):
    """Return the native judge of the topic `t`."""
    properties = {
        "record.validation.policy.class.name": "penstock.policies.JsonSchema",
        "json.schema.folder": SCHEMA.parent,
        "topics.t.record.validation.policy": SCHEMA.name,
    }
    file = write_configuration(folder, "127.0.0.1:1", 9, properties, "")
    of = load_configuration(file).policies
    return InlineJudge(of).natively(Plan(of).for_topic("t"), _native.Judge)


def rate(_native, judged_by, threads: int) -> float:
    """Return how many requests a second pass."""
    data, _ = batch(160, 3, 16_000)
    frame = request_frame(produce_request([("t", [(0, data)])], version=9, acks=1), 7)
    table = _native.Table([(PRODUCE, 0, bytes([WHOLE] * 13))])
    table.know_name("t", [judged_by], False, float("inf"))
    lane = _native.Lane(threads, (), 2**30, time.monotonic())
    pairs = [(connected(), connected()) for _ in range(CONNECTIONS)]
    numbers = [
        lane.adopt(table, client[1].fileno(), broker[1].fileno(), NOTHING_BETWEEN, b"", b"",
                   2**20, float("inf"))
        for client, broker in pairs
    ]  # fmt: skip
    ends = [(client[0], broker[0]) for client, broker in pairs]
    load = Process(target=send_and_answer, args=(ends, frame), daemon=True)
    load.start()
    try:
        time.sleep(0.5)
        lane.collect()
        began = time.perf_counter()
        time.sleep(SECONDS)
        took = time.perf_counter() - began
        received = sum(counted[3] for counted in lane.collect())
        if lane.ready():
            sys.exit("a thread has given a connection back")
    finally:
        load.kill()
        load.join()
        for number in numbers:
            lane.take(number)
        lane.close()
        for pair in pairs:
            for ends_of in pair:
                for end in ends_of:
                    end.close()
    return received / len(frame) / took


def main() -> None:
    """Measure and print."""
    if not hasattr(_native, "Lane") or len(os.sched_getaffinity(0)) < 2:
        sys.exit("needs Linux and two cores")
    found: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        judged_by = judge(_native, Path(folder))
        for _ in range(ROUNDS):
            for threads, rates in found.items():
                rates.append(rate(_native, judged_by, threads))
    table = Table("native threads", "requests/s", "to one")
    with_one_thread = statistics.median(found[1])
    for threads, rates in found.items():
        median = statistics.median(rates)
        table.add_row(str(threads), f"{median:,.0f}", f"{median / with_one_thread:.2f}")
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
