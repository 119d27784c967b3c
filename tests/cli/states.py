"""States of a gateway, as `penstock top` reads them."""

from typing import Any


def point(accepted: float = 0.0, refused: float = 0.0) -> dict[str, Any]:
    return {"records": {"accepted": accepted, "refused": refused}}


def row(message: str = "no", **more: object) -> dict[str, Any]:
    return {
        "id": 1, "observed": False, "outcome": "refused", "topic": "orders", "partition": 0,
        "policy": "policy.Orders", "code": 87, "message": message, "client": "app",
        "principal": None, "address": None, "count": 12_345, "records": 5, "first": 0.0,
        "last": 0.0, **more,
    }  # fmt: skip


def state(**more: object) -> dict[str, Any]:
    latency = {"p50": 0.00123, "p99": 1.5}
    return {
        "at": 10_000.0,
        "gateway": {
            "host": "kafka-gateway-1",
            "listener": "PLAINTEXT://0.0.0.0:9192",
            "started": 1.0,
        },
        "ready": {"is_ready": True, "missing": [], "troubles": []},
        "rates": {
            "records": {"accepted": 1234.0, "refused": 0.5},
            "requests": 99.5,
            "produce": latency,
            "waiting": latency,
            "judging": latency,
            "broker": {"p50": None, "p99": None},
        },
        "totals": {"accepted": 10_000_000, "refused": 77, "would_refuse": 3},
        "connections": {"states": {"open": 3}, "limit": 2**31 - 1},
        "held_bytes": {"held": 1_500, "limit": 2**30},
        "workers": {"states": {"ready": 2, "spare": 1}, "waiting": 4},
        "brokers": [{"reachable": True}, {"reachable": False}],
        "reload": None,
        "refusals": {"rows": [row()], "others": 0},
        "history": {"points": [point(1, 0), point(5, 2)]},
        **more,
    }
