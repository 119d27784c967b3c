"""Orders as the producers of a shop would send them, some of them bad in six ways."""

import json
import random
from dataclasses import dataclass

BAD_WAYS = (
    "not JSON",
    "no customer",
    "amount below zero",
    "unknown currency",
    "amount as text",
    "no key",
)


@dataclass
class Order:
    """A record to produce; `bad` says how it is bad, and is empty for a good record."""

    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]
    bad: str


def make_orders(count: int, *, bad_share: float, seed: int) -> list[Order]:
    """Return orders, the same orders for the same seed."""
    chance = random.Random(seed)
    orders = []
    for number in range(count):
        document = {
            "id": f"ord-{number:06d}",
            "customer": chance.randint(1, 900),
            "currency": chance.choice(["EUR", "EUR", "USD", "GBP"]),
            "amount": round(chance.uniform(1, 400), 2),
            "lines": [
                {"sku": f"sku-{chance.randint(1, 50)}", "count": chance.randint(1, 5)}
                for _ in range(chance.randint(1, 4))
            ],
        }
        bad = chance.choice(BAD_WAYS) if chance.random() < bad_share else ""
        key: bytes | None = str(document["customer"]).encode()
        if bad == "no customer":
            del document["customer"]
        elif bad == "amount below zero":
            document["amount"] = -1
        elif bad == "unknown currency":
            document["currency"] = "DOGE"
        elif bad == "amount as text":
            document["amount"] = "12.50"
        elif bad == "no key":
            key = None
        value = json.dumps(document).encode()
        if bad == "not JSON":
            value = value[: len(value) // 2]
        headers = [("source", b"shop"), ("trace", b"%016x" % chance.getrandbits(64))]
        orders.append(Order(key, value, headers, bad))
    return orders
