"""Records for each contract: one that fits, and variants with another value of a field."""

from typing import Any, Final

GOOD: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("features.odcs.yaml", "things"): {
        "id": "AB-1",
        "code": "abc",
        "count": 5,
        "price": 1.5,
        "paid": True,
        "day": "2024-02-29",
        "at": "2024-03-10T14:22:35Z",
        "unit": "kg",
        "note": "x",
        "mail": "a@b.c",
        "iban": "DE12",
        "address": {"city": "Bonn", "zip": "53111"},
        "tags": ["a", "b"],
        "lines": [{"sku": "s", "count": 1}],
    },
    ("orders.odcs.yaml", "orders"): {
        "order_id": "ORD-1001",
        "order_timestamp": "2024-03-10T14:22:35+01:00",
        "customer_id": "c",
        "order_total": 10.5,
        "status": "pending",
    },
    ("orders.odcs.yaml", "line_items"): {
        "line_item_id": "1",
        "order_id": "ORD-1001",
        "sku": "s",
        "quantity": 1,
    },
    ("inventory.odcs.yaml", "inventory"): {
        "updated_at": "2022-04-20T13:50:34.228811Z",
        "available": 17,
        "location": "18",
        "sku": "9521582929054",
    },
    ("user_interactions.odcs.yaml", "user_interactions"): {
        "interaction_id": "i",
        "user_id": "u",
        "interaction_type": "click",
        "interaction_value": 10,
    },
}
OTHER: Final[dict[str, list[Any]]] = {
    "id": ["AB1", "xAB-1", "AB-1\n", "AB-\u0661", 7],
    "code": ["a", "abcde", "äöüß", 12],
    "count": [0, 99, 100, -1, 1.5, "5", True],
    "price": [0, 1000, 1000.5, 1, "1"],
    "paid": ["true", 1],
    "day": ["2024-3-1", "2024-02-29T00:00:00Z", "today", "2024-02-31", "2023-02-29"],
    "at": [
        "2024-03-10",
        "2024-02-31T10:00:00Z",
        "2024-03-10t14:22:35z",
        "2024-03-10T24:00:00Z",
        "2024-03-10 14:22:35Z",
        "2024-03-10T14:22:60Z",
        "2024-03-10T14:22:35+0100",
        "2024-03-10T14:22:35.123Z",
        "2024-03-10T14:22:35",
        1710080555,
    ],
    "unit": ["pounds", "g", ""],
    "mail": ["", "N/A"],
    "iban": ["de12", "DE1", "DE123"],
    "address": [{"city": None}, {}, {"city": "x"}, "x", {"city": "x", "other": 1}],
    "tags": [[], ["a", None], [1], "a"],
    "lines": [[], [{}], [{"sku": None}], [{"sku": "s", "count": "1"}], {}],
    "order_timestamp": ["yesterday", "2024-03-10T14:22:35"],
    "order_total": ["10", -5],
    "quantity": [1.5, "1", 2**40],
    "available": [1.5, "17"],
    "interaction_value": ["10", 5000],
}


def records(good: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a record, and others that differ in one field."""
    found = [good, {**good, "other": 1}]
    for name in good:
        found.append({key: value for key, value in good.items() if key != name})
        found += [{**good, name: value} for value in (None, *OTHER.get(name, ()))]
    return found
