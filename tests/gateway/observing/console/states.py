"""Gateways that count generated events, and their states."""

import random
from typing import Any

from penstock.engine.verdict import RecordError, failed, refused_records
from penstock.gateway.observing.console.peer_state import GatewayState
from penstock.gateway.observing.console.recent_refusals import RecentRefusals
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.refusal_log import Refused
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch

BATCHES = {count: encode_batch([Record(0, None, b"x")] * count) for count in (1, 3, 8)}
RUN = "00000000-0000-0000-0000-{:012d}"


class CountingGateway:
    """The parts of a gateway that count."""

    def __init__(self, number: int = 0, now: Any = lambda: 1000.0) -> None:
        self.number = number
        self.now = now
        self.counts = GatewayCounts(records_max=1000)
        self.refusals = RecentRefusals(now)

    def play(self, event: tuple[Any, ...]) -> None:
        topic, client, message, count, is_failed, seconds = event
        self.counts.judged("a.V", None, seconds, 2 * seconds)
        self.counts.client_bytes += count
        verdict = refused_records([RecordError(0, message, "a.V")])
        if is_failed:
            verdict = failed("a.V", message, detail="policies.py:7 in validate")
        self.counts.refused(topic, BATCHES[count], verdict)
        self.refusals.put(Refused(topic, count, client, verdict, records=count))
        self.refusals.look()

    def head(self, **more: Any) -> dict[str, Any]:
        return {
            "api": 1,
            "run": RUN.format(self.number),
            "at": 1000.0,
            "gateway": {"host": f"gw-{self.number}", "listener": "PLAINTEXT://:9192",
                        "upstream": "kafka:9092", "file": "/etc/penstock.properties",
                        "version": "0.1.0", "python": "3.13.5", "started": 900.0,
                        "mode_of_file": "enforce"},
            "ready": {"is_ready": True, "missing": [], "troubles": []},
            "connections": {"limit": 100, "states": {"open": 3, "paused": 1}},
            "held_bytes": {"held": 10, "limit": 100},
            "workers": {"states": {"ready": 2}, "limit": 3, "waiting": 1, "sent": 2},
            "audit_trail": None,
            "settings_generation": 5,
            "producers": 2,
            "restarts": self.counts.restarts(),
            "totals": self.counts.totals()._asdict(),
            "reload": None,
            "others": self.refusals.others,
            **more,
        }  # fmt: skip

    def state(self, **more: Any) -> GatewayState:
        return GatewayState(
            self.head(**more),
            [broker(1)],
            self.counts.records_by_topic(),
            [row.as_json() for row in self.refusals.rows()],
            {"orders": "0123456789ab"},
        )


def broker(node: int, why_not: str = "") -> dict[str, Any]:
    return {"node": node, "address": "kafka:9092", "reachable": not why_not, "why_not": why_not,
            "seconds_ago": 1.5}  # fmt: skip


def generated(seed: int, events: int = 200) -> list[tuple[Any, ...]]:
    """Return refusals of a few topics, clients and reasons."""
    chance = random.Random(seed)
    return [
        (
            chance.choice(["orders", "payments", "clicks\u202e"]),
            chance.choice(["a", "b", None]),
            chance.choice(["no", "too low", "\x1b"]),
            chance.choice([1, 3, 8]),
            chance.random() < 0.2,
            chance.expovariate(100),
        )
        for _ in range(events)
    ]
