"""Measures open connections: `make bench-connections`.

Opens connections that send a single ApiVersions request and then stay idle, in plain text and with
TLS, in steps up to 10,000, and prints the memory of the gateway's process for each. Then 200
connections send 500 requests a second, alone and next to the idle connections, for each kind of
gateway: their latency, and the CPU time of the gateway's process and of its workers. Bounded: some
five minutes on two cores; needs 21,000 file descriptors a process (`ulimit -n`), fewer with
`--idle`.
"""

import argparse
import contextlib
import json
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import trustme
from bench import HERE, OTHER, Bench, RelayedKafka, batch, cpu_s, process_cpu_s, started
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from rich.console import Console
from rich.table import Table
from tests.gateways import resident_bytes, write_configuration
from tests.hostile.greedy import place
from tests.raw import produce_request, request_frame

from penstock.kafka.local import LocalKafka, free_ports

VARIANTS = ("direct", "bare relay", "no policy", "JSON Schema", "trivial policy", "map one field")
BUSY, RATE, SECONDS = 200, 500, 10.0
BATCH_BYTES = 1_750
"""Ten records of 160 B."""
HELLO = request_frame(
    ApiVersionsRequest(client_software_name="idle", client_software_version="1"), 1
)
say = Console(width=110, highlight=False).print


def connect(address: str, tls: ssl.SSLContext | None, within: ExitStack) -> None:
    """Open a connection, and have it answered once."""
    connection = socket.create_connection(place(address), 60)
    if tls is not None:
        connection = tls.wrap_socket(connection, server_hostname="127.0.0.1")
    within.enter_context(connection)
    connection.sendall(HELLO)
    if not connection.recv(4):
        raise SystemExit("the gateway closed a connection")


def steps(most: int) -> Iterator[int]:
    """Up to where connections are opened before the memory is looked at."""
    yield from (count for count in (1_000, 4_000, 10_000) if count < most)
    yield most


def idle(kafka: LocalKafka, folder: Path, most: int, table: Table, other: Path | None) -> None:
    """Memory of connections that do nothing."""
    authority = trustme.CA()
    key = folder / "listener.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with_tls = {"ssl.keystore.location": key}
    listeners: list[tuple[str, ssl.SSLContext | None, dict[str, Path]]] = [
        ("plain text", None, {}),
        ("TLS", trusting, with_tls),
        ("TLS in Python", trusting, with_tls),
    ]
    if other:
        listeners += [("plain text" + OTHER, None, {}), ("TLS" + OTHER, trusting, with_tls)]
    for name, tls, properties in listeners:
        own = folder / name.replace(" ", "-")
        own.mkdir()
        port = free_ports(3)[0]
        scheme = "PLAINTEXT" if tls is None else "SSL"
        address = {"listeners": f"{scheme}://127.0.0.1:{port}"}
        file = write_configuration(own, kafka.bootstrap_servers, port, {**properties, **address})
        environment = {"PENSTOCK_NATIVE_TLS": "0" if name.endswith("in Python") else ""}
        with mock.patch.dict(os.environ, environment):
            running = started(file, other if name.endswith(OTHER) else None)
        with ExitStack() as ends:
            ends.callback(running.stop)
            connections = ends.enter_context(ExitStack())
            before, opened = resident_bytes(running.pid), 0
            for count in steps(most):
                used = cpu_s(running)
                for _ in range(count - opened):
                    connect(running.address, tls, connections)
                each_ms = (cpu_s(running) - used) / (count - opened) * 1000
                opened = count
                time.sleep(1)
                grown = resident_bytes(running.pid) - before
                used = cpu_s(running)
                time.sleep(5)
                rest = (cpu_s(running) - used) / 5
                table.add_row(
                    name, f"{count:,}", f"{grown / 2**20:.0f}", f"{grown / count / 1024:.1f}",
                    f"{each_ms:.2f}", f"{rest * 100:.1f} %",
                )  # fmt: skip


def busy(kafka: RelayedKafka, folder: Path, most: int, table: Table, other: Path | None) -> None:
    """Latency and CPU time of connections that send, alone and next to idle connections."""
    bench = Bench(kafka, folder, VARIANTS, other)
    with contextlib.closing(bench):
        for variant in bench.variants:
            for beside in (0, most):
                if variant == "direct" and beside:
                    continue
                with ExitStack() as connections:
                    for _ in range(beside):
                        connect(bench.address(variant), None, connections)
                    table.add_row(variant, f"{beside:,}", *load(bench, folder, variant))
        table.add_section()


def load(bench: Bench, folder: Path, variant: str) -> list[str]:
    """Run the busy connections once, after a warm-up; return the figures as text."""
    topic = bench.topic()
    data, _ = batch(160, 0, BATCH_BYTES)
    request = produce_request([(topic, [(0, data)])], version=9, acks=1)
    frame = folder / "busy-frame"
    frame.write_bytes(request_frame(request, 7))
    running = bench.gateways.get(variant)
    run(bench.address(variant), frame, 1.0)
    pids = [running.pid, *running.workers()] if running else []
    before = {pid: process_cpu_s(pid) for pid in pids}
    result = run(bench.address(variant), frame, SECONDS)
    used = [(process_cpu_s(pid) - before[pid]) / result["requests"] * 1e6 for pid in pids]
    bench.delete(topic)
    gateway = f"{used[0]:.0f}" if used else ""
    workers = f"{sum(used[1:]):.0f}" if used else ""
    figures = (f"{result[name]:,.{digits}f}" for name, digits in (("p50", 2), ("p99", 1)))
    return [*figures, f"{result['rate']:,.0f}", gateway, workers]


def run(address: str, frame: Path, seconds: float) -> dict[str, float]:
    """Send from a separate process."""
    how = map(str, (BUSY, RATE, seconds))
    done = subprocess.run(
        [sys.executable, str(HERE / "busy.py"), address, str(frame), *how],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{address}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def allowed(most: int) -> int:
    """Raise the limit of file descriptors, as far as this may be; return how many may be idle."""
    needed = 2 * most + 1_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(needed, hard), max(needed, hard)))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(most, (hard - 1_000) // 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=10_000, help="how many do nothing")
    parser.add_argument("--other", type=Path, help="a Python that has another version of Penstock")
    options = parser.parse_args()
    most = allowed(options.idle)
    memory = Table("idle", "connections", "MiB", "KiB each", "CPU ms to open", "CPU at rest")
    times = Table(
        f"{BUSY} busy, {RATE:,} requests/s", "idle", "p50 ms", "p99 ms", "requests/s",
        "gateway us", "workers us",
    )  # fmt: skip
    with RelayedKafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        idle(kafka, folder, most, memory, options.other)
        say(memory)
        busy(kafka, folder, most, times, options.other)
        say(times)


if __name__ == "__main__":
    main()
