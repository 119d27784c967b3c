"""The part of the demo about Avro: payments that must match payment.avsc, to their last byte."""

import io
import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
from confluent_kafka import KafkaError, Producer
from proof import show_reasons, stored
from rich.console import Console

TOPIC, SCHEMA_FILE, COUNT, BAD_SHARE = "payments", "payment.avsc", 400, 0.08
SCHEMA = json.loads((Path(__file__).parent / SCHEMA_FILE).read_text())
BAD_WAYS = ("truncated", "a byte after its end", "amount as text")
say = Console(highlight=False, width=100).print


class Payment(NamedTuple):
    """A record to produce; `bad` says how it is bad, and is empty for a good record."""

    key: bytes
    value: bytes
    bad: str


def make_payments(count: int, *, bad_share: float, seed: int) -> list[Payment]:
    """Return payments, the same payments for the same seed."""
    chance = random.Random(seed)
    schema = fastavro.parse_schema(SCHEMA)
    # A producer with another version of the schema; the bytes do not name the version.
    wrong = SCHEMA | {"fields": [_as_text(field) for field in SCHEMA["fields"]]}
    wrong_schema = fastavro.parse_schema(wrong)
    payments = []
    for number in range(count):
        cents = chance.randint(100, 40_000)
        document = {
            "id": f"pay-{number:06d}",
            "order": f"ord-{chance.randint(0, 4999):06d}",
            "cents": cents,
            "currency": chance.choice(["EUR", "EUR", "USD", "GBP"]),
            "note": chance.choice([None, "gift", "second attempt"]),
        }
        bad = chance.choice(BAD_WAYS) if chance.random() < bad_share else ""
        if bad == "amount as text":
            value = encoded(document | {"cents": str(cents)}, wrong_schema)
        else:
            value = encoded(document, schema)
        if bad == "truncated":
            value = value[:-1]
        elif bad == "a byte after its end":
            value += b"\0"
        payments.append(Payment(document["order"].encode(), value, bad))
    return payments


def encoded(document: dict[str, Any], schema: Any) -> bytes:
    """Return a document in Avro's binary encoding."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, document)
    return buffer.getvalue()


def _as_text(field: dict[str, Any]) -> dict[str, Any]:
    return field | {"type": "string"} if field["name"] == "cents" else field


def produce(bootstrap: str, payments: list[Payment]) -> dict[int, list[Payment]]:
    """Produce each payment in its own batch; return them by error code, 0 without an error."""
    results: dict[int, list[Payment]] = defaultdict(list)

    def report(error: KafkaError | None, payment: Payment) -> None:
        results[error.code() if error else 0].append(payment)

    producer = Producer({
        "bootstrap.servers": bootstrap, "client.id": "till", "log_level": 3,
        "batch.num.messages": 1, "linger.ms": 0, "retries": 0,
    })  # fmt: skip
    for payment in payments:
        producer.produce(
            TOPIC,
            key=payment.key,
            value=payment.value,
            on_delivery=lambda error, _, payment=payment: report(error, payment),
        )
        producer.poll(0)
    if producer.flush(60):
        raise SystemExit("payments were neither acknowledged nor refused within 60 s")
    return results


def run(gateway: str, kafka: str, reasons: Counter[tuple[str, str]]) -> dict[str, bool]:
    """Run this part of the demo; return the results of its checks.

    Args:
        gateway: The address of the gateway.
        kafka: The address of the broker.
        reasons: The gateway's refusals, counted by policy and reason.
    """
    payments = make_payments(COUNT, bad_share=BAD_SHARE, seed=5)
    say(f"\n[bold]Avro[/]: {COUNT} payments, some of which do not match {SCHEMA_FILE}:")
    results = produce(gateway, payments)
    acknowledged, refused = results.pop(0, []), results.pop(KafkaError.INVALID_RECORD, [])
    if results:
        raise SystemExit(f"unexpected errors: {sorted(results)}")
    show_reasons(reasons)
    made = Counter(payment.bad for payment in payments if payment.bad)
    say("bad payments:", ", ".join(f"{count} {bad}" for bad, count in sorted(made.items())))
    found = Counter((key, value) for key, value, _ in stored(kafka, TOPIC))
    say(f"\n{found.total()} payments stored, {len(refused)} refused.")
    good = [payment for payment in payments if not payment.bad]
    return {
        "every good payment was acknowledged, and every bad payment refused": sorted(acknowledged)
        == sorted(good)
        and len(refused) == made.total() > 0
        and all(payment.bad for payment in refused),
        "the broker has each good payment once, byte for byte": found
        == Counter((payment.key, payment.value) for payment in good),
    }
