"""The part of the demo about Avro: payments that have to fit payment.avsc, to their last byte."""

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
    """A record to produce; `bad` says what is wrong with it, empty if nothing is."""

    key: bytes
    value: bytes
    bad: str


def make_payments(count: int, *, bad_share: float, seed: int) -> list[Payment]:
    """Make payments, the same ones for the same seed."""
    chance = random.Random(seed)
    schema = fastavro.parse_schema(SCHEMA)
    # What a producer writes that has another idea of the schema: the bytes do not say it.
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
    """Write a document in Avro's binary encoding."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, document)
    return buffer.getvalue()


def _as_text(field: dict[str, Any]) -> dict[str, Any]:
    return field | {"type": "string"} if field["name"] == "cents" else field


def produce(bootstrap: str, payments: list[Payment]) -> dict[int, list[Payment]]:
    """Produce each payment in a batch of its own; give them by error code, 0 for none."""
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
    """Tell the story; give what it proved.

    Args:
        gateway: Where the gateway is.
        kafka: Where the broker is.
        reasons: What the gateway refuses is counted there, by policy and reason.
    """
    payments = make_payments(COUNT, bad_share=BAD_SHARE, seed=5)
    say(f"\n[bold]Avro[/]: {COUNT} payments, some of them not what {SCHEMA_FILE} says:")
    results = produce(gateway, payments)
    acknowledged, refused = results.pop(0, []), results.pop(KafkaError.INVALID_RECORD, [])
    if results:
        raise SystemExit(f"unexpected errors: {sorted(results)}")
    show_reasons(reasons)
    made = Counter(one.bad for one in payments if one.bad)
    say("as made:", ", ".join(f"{count} {bad}" for bad, count in sorted(made.items())))
    found = Counter((key, value) for key, value, _ in stored(kafka, TOPIC))
    say(f"\n{found.total()} payments stored, {len(refused)} refused.")
    good = [one for one in payments if not one.bad]
    return {
        "every good payment was acknowledged, every bad one refused": sorted(acknowledged)
        == sorted(good)
        and len(refused) == made.total() > 0
        and all(one.bad for one in refused),
        "the broker has the good payments, byte for byte, each once": found
        == Counter((one.key, one.value) for one in good),
    }
