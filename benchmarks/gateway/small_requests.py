"""Small requests of a real client, direct against through the gateway: `make bench-small`.

librdkafka sends requests of one record, of ten and of a hundred, at fixed rates, over one
connection and over ten. Each round runs every variant once, interleaved; medians over the rounds
are printed: CPU microseconds of all the gateway's processes for a request, also as a ratio to a
relay that reads nothing, and the time from `produce()` to the delivery report. Where the reached
rate is lower than the requested rate, the queue grew. Bounded: about ten minutes on two cores;
`--quick` about two. `--other PYTHON` runs some variants also with another version of Penstock, and
`--only VARIANT` only some, beside the relay.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import MODES, Bench, RelayedKafka, cpu_s, order
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

VARIANTS = (
    "direct",
    "bare relay",
    "no policy",
    "no policy, counted",
    "no policy, in Python",
    "no policy, TLS",
    "no policy, TLS, in Python",
    "no policy, TLS on both sides",
    "no policy, TLS on both sides, in Python",
    "judged elsewhere",
    "trivial policy",
    "JSON Schema",
    "JSON Schema, in Python",
)
OF_MODES = tuple(f"JSON Schema, {mode}" for mode in MODES)
"""Variants that only run if they are named."""
SETTINGS = {
    "": {},
    "ssl": {"security.protocol": "ssl", "enable.ssl.certificate.verification": False},
    "idempotent": {"enable.idempotence": True, "acks": "all"},
}
"""Settings of producers, by what stands behind the comma of an address."""
RECORD_BYTES = 160
WARM_UP = 0.2
"""The part of a run that is not counted: connections, metadata, caches."""


class Load(NamedTuple):
    """The records to send.

    Attributes:
        records: Records a request.
        rate: Requests a second, over all connections.
        connections: How many producers.
    """

    records: int
    rate: int
    connections: int


LOADS = (
    Load(1, 500, 1),
    Load(1, 1500, 1),
    Load(1, 3000, 1),
    Load(1, 4000, 1),
    Load(1, 1500, 10),
    Load(10, 500, 1),
    Load(100, 100, 1),
)


def send(address: str, topic: str, load: Load, seconds: float) -> dict[str, float]:
    """Send at a fixed rate; return the reached rate, and latencies in ms."""
    address, _, kind = address.partition(",")
    producers = [
        Producer(
            {
                "bootstrap.servers": address,
                "batch.num.messages": load.records,
                "linger.ms": 100,  # full batches go at once
                "acks": 1,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
                **SETTINGS[kind],
            }
        )
        for _ in range(load.connections)
    ]
    latencies: list[float] = []
    failed: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failed.append(str(error))
        latencies.append(message.latency())

    values = [order(number, RECORD_BYTES) for number in range(100)]
    for producer in producers:  # connections and metadata
        for value in values[: load.records]:
            producer.produce(topic, value)
        producer.flush(30)
    count = int(load.rate * seconds)
    began = time.perf_counter()
    for number in range(count):
        due = began + number / load.rate
        producer = producers[number % load.connections]
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        for value in values[: load.records]:
            producer.produce(topic, value, on_delivery=delivered)
        for each in producers:
            each.poll(0)
    for producer in producers:
        producer.flush(60)
    took = time.perf_counter() - began
    if failed or len(latencies) != count * load.records:
        raise SystemExit(f"{len(latencies)} of {count * load.records} delivered; {failed[:1]}")
    counted = sorted(latencies[int(len(latencies) * WARM_UP) :])
    return {
        "rate": count / took,
        "p50": counted[len(counted) // 2] * 1e3,
        "p99": counted[int(len(counted) * 0.99)] * 1e3,
        "requests": count,
    }


def send_elsewhere(address: str, topic: str, load: Load, seconds: float) -> dict[str, float]:
    """Send from a separate process."""
    done = subprocess.run(
        [sys.executable, __file__, "--send", address, topic, *map(str, load), str(seconds)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(f"{address}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _kind(variant: str) -> str:
    """Return what stands behind the address of a variant."""
    if "TLS" in variant:
        return ",ssl"
    return ",idempotent" if variant.endswith(", idempotent") else ""


def measure(bench: Bench, load: Load, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Run every variant in each round; return medians."""
    found: dict[str, dict[str, list[float]]] = {
        variant: {"cpu": [], "rate": [], "p50": [], "p99": []} for variant in bench.variants
    }
    for _ in range(rounds):
        for variant in bench.variants:
            topic = bench.topic()
            running = bench.gateways.get(variant)
            before = cpu_s(running) if running else 0.0
            address = bench.address(variant) + _kind(variant)
            result = send_elsewhere(address, topic, load, seconds)
            used = cpu_s(running) - before if running else 0.0
            bench.delete(topic)
            found[variant]["cpu"].append(used / result["requests"] * 1e6)
            for name in ("rate", "p50", "p99"):
                found[variant][name].append(result[name])
    return {
        variant: {name: statistics.median(figures) for name, figures in each.items()}
        for variant, each in found.items()
    }


def compare(
    variants: Sequence[str],
    loads: Sequence[Load],
    seconds: float,
    rounds: int,
    other: Path | None = None,
) -> Table:
    """Run variants, one of which is the bare relay; return a table."""
    table = Table(
        "requests", "variant", "CPU us a request", "to relay", "p50 ms", "p99 ms", "requests/s"
    )
    with RelayedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        bench = Bench(kafka, Path(folder), variants, other)
        try:
            for load in loads:
                results = measure(bench, load, seconds, rounds)
                relay = results["bare relay"]["cpu"]
                for variant, figures in results.items():
                    table.add_row(
                        f"{load.records} x {RECORD_BYTES} B, {load.rate}/s, "
                        f"{load.connections} connections",
                        variant,
                        f"{figures['cpu']:.0f}" if variant != "direct" else "",
                        f"{figures['cpu'] / relay:.1f}",
                        f"{figures['p50']:.2f}",
                        f"{figures['p99']:.2f}",
                        f"{figures['rate']:,.0f}",
                    )
                table.add_section()
        finally:
            bench.close()
    return table


def main() -> None:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three of the loads, one round")
    parser.add_argument("--other", type=Path, help="a Python that has another version of Penstock")
    parser.add_argument(
        "--only", action="append", choices=(*VARIANTS, *OF_MODES), help="a variant to run"
    )
    parser.add_argument("--rounds", type=int, help="how often each variant runs")
    parser.add_argument("--send", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send:
        address, topic, *numbers = options.send
        *load, seconds = numbers
        print(json.dumps(send(address, topic, Load(*map(int, load)), float(seconds))))
        return
    loads, rounds, seconds = (LOADS[1:4], 1, 4.0) if options.quick else (LOADS, 3, 6.0)
    rounds = options.rounds or rounds
    variants = ("bare relay", *options.only) if options.only else VARIANTS
    table = compare(variants, loads, seconds, rounds, options.other)
    Console(width=110, highlight=False).print(table)


if __name__ == "__main__":
    main()
