"""The gateway: the first half of `make demo`.

Starts a Kafka and the gateway in front of it, produces orders through the gateway with
confluent-kafka, shows which orders were refused and why, and reads from the broker what is stored.
payments.py does the same for payments in Avro, and about_topics.py creates topics and enables
policies with Kafka's own tools. history.py is the second half, on Spark.
"""

import asyncio
import logging
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import about_topics
import payments
import shop
import structlog
import uvloop
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from orders import Order, make_orders
from proof import show_reasons, stored
from rich.console import Console

from penstock.configuration import load_configuration
from penstock.gateway.server import Gateway
from penstock.kafka.local import LocalKafka, free_ports

TOPIC, PARTITIONS, COUNT, BAD_SHARE = "orders", 3, 5000, 0.04
say = Console(highlight=False, width=100).print


def send(
    producer: Producer, orders: list[Order], *, singly: bool = False
) -> dict[int, list[Order]]:
    """Send orders and wait; return them by the error code that each got, 0 without an error."""
    results: dict[int, list[Order]] = defaultdict(list)

    def report(error: KafkaError | None, order: Order) -> None:
        results[error.code() if error else 0].append(order)

    for order in orders:
        producer.produce(
            TOPIC,
            key=order.key,
            value=order.value,
            headers=order.headers,
            on_delivery=lambda error, _, order=order: report(error, order),
        )
        producer.poll(0)
        if singly:
            producer.flush(60)
    if producer.flush(60):
        raise SystemExit("records were neither acknowledged nor refused within 60 s")
    return results


def produce(
    bootstrap: str, orders: list[Order], reasons: Counter[tuple[str, str]]
) -> tuple[list[Order], list[Order]]:
    """Produce orders as a careful producer does; return the stored and the refused orders.

    If a record is bad, its whole batch is refused. If several records of a batch are bad,
    librdkafka reports another error for the good records, and these are sent again. If only one
    record is bad, all records of the batch get its error. So each of these is sent again in a
    batch of its own.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "shop",
            "log_level": 3,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "batch.num.messages": 100,
            "linger.ms": 1,
        }
    )
    acknowledged: list[Order] = []
    uncertain: list[Order] = []
    remaining = orders
    while remaining:
        results = send(producer, remaining)
        good = results.pop(KafkaError._INVALID_DIFFERENT_RECORD, [])
        acknowledged += results.pop(0, [])
        invalid = results.pop(KafkaError.INVALID_RECORD, [])
        uncertain += invalid
        if results:
            raise SystemExit(f"unexpected errors: {sorted(results)}")
        say(
            f"  {len(remaining)} sent: {len(remaining) - len(good) - len(invalid)} stored, "
            f"{len(invalid)} bad or in a batch with a bad order, {len(good)} good but in a refused "
            "batch"
        )
        remaining = good
    reasons.clear()  # each bad order is now refused again, alone
    results = send(producer, uncertain, singly=True)
    acknowledged += results.pop(0, [])
    refused = results.pop(KafkaError.INVALID_RECORD, [])
    if results:
        raise SystemExit(f"unexpected errors: {sorted(results)}")
    say(f"  {len(uncertain)} sent in batches of one: {len(refused)} refused")
    return acknowledged, refused


def show(
    orders: list[Order],
    acknowledged: list[Order],
    refused: list[Order],
    found: list[tuple[bytes | None, bytes, tuple[tuple[str, bytes], ...]]],
    reasons: Counter[tuple[str, str]],
) -> dict[str, bool]:
    """Show which orders were refused; return the results of the checks."""
    show_reasons(reasons)
    made = Counter(order.bad for order in orders if order.bad)
    say("bad orders:", ", ".join(f"{count} {bad}" for bad, count in sorted(made.items())), "\n")

    good = Counter((o.key, o.value, tuple(o.headers)) for o in orders if not o.bad)
    return {
        "every good order was acknowledged": Counter(
            (o.key, o.value, tuple(o.headers)) for o in acknowledged
        )
        == good,
        "every bad order was refused": sorted(o.value for o in refused)
        == sorted(o.value for o in orders if o.bad),
        "the broker has each good order once, byte for byte, and nothing else": Counter(found)
        == good,
    }


async def run(kafka: str, folder: Path) -> bool:
    """Run the demo in front of a Kafka; return whether all checks succeeded."""
    file = shop.write_files(folder, kafka, free_ports(1)[0])
    reasons: Counter[tuple[str, str]] = Counter()

    def watch(refused) -> None:
        for error in refused.verdict.record_errors:
            reasons[error.policy, error.message or ""] += 1

    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.create_topics(
        [NewTopic(name, PARTITIONS) for name in (TOPIC, payments.TOPIC)]
    ).values():
        done.result()
    gateway = Gateway(load_configuration(file), watch=watch)
    address = await gateway.start()
    say(f"[bold]gateway[/] {address} in front of [bold]Kafka[/] {kafka}\n")
    try:
        orders = make_orders(COUNT, bad_share=BAD_SHARE, seed=7)
        say(f"producing {len(orders)} orders through the gateway, some of them bad:")
        acknowledged, refused = await asyncio.to_thread(produce, str(address), orders, reasons)
        found = await asyncio.to_thread(stored, kafka, TOPIC)
        checks = show(orders, acknowledged, refused, found, reasons)
        say(f"\n{len(found)} records stored, {len(refused)} refused.")
        reasons.clear()
        checks |= await asyncio.to_thread(payments.run, str(address), kafka, reasons)
        checks |= await asyncio.to_thread(about_topics.run, str(address))
    finally:
        await gateway.stop()
    for check, holds in checks.items():
        say("[green]yes[/]" if holds else "[red]NO [/]", check)
    return all(checks.values())


def main() -> int:
    """Start Kafka, run the demo, stop everything."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # SIGTERM, too, stops everything that was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    say("starting Kafka ...")
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        succeeded = uvloop.run(run(kafka.bootstrap_servers, Path(folder)))
    say("everything is stopped.\n")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
