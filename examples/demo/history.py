"""Stored records, on Spark: the second half of `make demo`.

Starts a Kafka, and audits a topic that was produced to directly, splits it, repairs and redrives
the dead letters, and audits the result. Each command is shown as you would type it.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import shop
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from orders import make_orders
from rich.console import Console

from penstock.kafka.local import LocalKafka, free_ports

HISTORY, CLEAN, DEAD = "orders-history", "orders-clean", "orders-dead"
COUNT, BAD_SHARE, PARTITIONS = 20_000, 0.06, 3
say = Console(highlight=False, width=100).print


def command(*arguments: object) -> str:
    """Run `penstock`, show the command and its output; return the output."""
    words = [str(argument) for argument in arguments]
    say(f"\n[bold]$ penstock {shlex.join(words)}[/]")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *words, "--master", "local[2]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    say(done.stdout.rstrip(), markup=False)
    if done.returncode:
        raise SystemExit(f"penstock {words[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def run(kafka: str, file: Path, report: Path) -> dict[str, bool]:
    """Run this part of the demo; return the results of its checks."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for name, done in admin.create_topics(
        [NewTopic(name, PARTITIONS) for name in (HISTORY, CLEAN, DEAD)]
    ).items():
        done.result(30)
        admin.list_topics(name, timeout=10)
    orders = make_orders(COUNT, bad_share=BAD_SHARE, seed=11)
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for order in orders:
        producer.produce(HISTORY, key=order.key, value=order.value, headers=order.headers)
        producer.poll(0)
    producer.flush(60)
    bad = [order.bad for order in orders if order.bad]
    repairable = sum(way in {"amount as text", "no key"} for way in bad)
    say(
        f"\n{COUNT:,} orders were stored without the gateway, {len(bad):,} of them bad: which of "
        "them would the policies have refused?"
    )
    audited = command("audit", file, "--topic", HISTORY, "--report", report)
    split = command("split", file, "--topic", HISTORY, "--accepted", CLEAN, "--rejected", DEAD)
    repair = (
        "redrive",
        file,
        "--from",
        DEAD,
        "--to",
        CLEAN,
        "--topic",
        HISTORY,
        "--with",
        "repair_orders.RepairOrders",
    )
    redriven = command(*repair)
    again = command(*repair)
    clean = command("audit", file, "--topic", CLEAN, "--fail-over", "0")
    left = len(bad) - repairable
    return {
        "the audit found every bad order": f"{len(bad):,} refused" in audited,
        "the split wrote them to the dead letters": f"{len(bad):,} refused" in split,
        "the orders that could be repaired returned": f"{repairable:,} returned, {left:,} again"
        in redriven,
        "no order returned twice": f"0 returned, {left:,} again" in again,
        "the topic has no bad order": f"{COUNT - left:,} accepted, 0 refused" in clean,
    }


def main() -> int:
    """Start Kafka, run this part of the demo, stop everything."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    report = Path(os.environ.get("PENSTOCK_CACHE", ".cache")) / "demo-report"
    say("starting Kafka for the second half, stored records on Spark ...")
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        file = shop.write_files(Path(folder), kafka.bootstrap_servers, free_ports(1)[0])
        checks = run(kafka.bootstrap_servers, file, report)
    for check, holds in checks.items():
        say("[green]yes[/]" if holds else "[red]NO [/]", check)
    say(f"the report of the audit is in {report / 'report.html'}; everything is stopped.")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
