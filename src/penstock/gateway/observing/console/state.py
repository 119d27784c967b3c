"""The state of a gateway, as JSON: for the console's page, and for programs."""

from __future__ import annotations

import platform
import socket
import time
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock import __version__
from penstock.configuration.topic_keys import MODE, value_of
from penstock.gateway.observing.console.recent_refusals import shown
from penstock.gateway.observing.metrics import gauges
from penstock.gateway.observing.metrics.measured_gateway import Measured
from penstock.gateway.observing.metrics.readiness import Inspected, inspect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.configuration import Configuration
    from penstock.engine.workers.schedule import Schedule
    from penstock.gateway.observing.audit_trail.trail import AuditTrail
    from penstock.gateway.observing.metrics.broker_checks import Reached

API_VERSION: Final = 1
"""Of what `/api/` returns: see docs/monitoring.md."""
TOPICS_MAX: Final = 200
"""The most topics with counts in the state: those with the most records that are not stored."""
_STARTED: Final = time.time()
_OTHER_OUTCOMES: Final = ("accepted", "dropped", "abandoned")


class ShownGateway(Measured, Inspected, Protocol):
    """A gateway, as far as it is shown."""

    @property
    def configuration(self) -> Configuration:
        """The configuration with which it was started."""


def about(gateway: ShownGateway) -> dict[str, Any]:
    """Return the part that does not change while a gateway runs."""
    configuration = gateway.configuration
    return {
        "host": _host(),
        "listener": str(configuration.listener),
        "upstream": shown(",".join(map(str, configuration.upstream_servers))),
        "file": shown(str(configuration.path)),
        "version": __version__,
        "python": platform.python_version(),
        "started": round(_STARTED, 3),
        "mode_of_file": value_of(MODE, configuration.properties),
    }


async def at_the_moment(gateway: ShownGateway, brokers: Mapping[int, Reached], now: float
                        ) -> dict[str, Any]:  # fmt: skip
    """Return the current state.

    Args:
        brokers: How the last attempt to connect to each broker ended.
        now: The time of the event loop.
    """
    states = await gauges.connections(gateway)
    readiness = inspect(gateway, brokers)
    return {
        "ready": {
            "is_ready": not readiness.missing,
            "missing": [shown(text) for text in readiness.missing],
            "troubles": [shown(text) for text in readiness.troubles],
        },
        "connections": {
            "limit": gateway.connections_max,
            "states": {state: int(count) for (state,), count in states.values.items()},
        },
        "held_bytes": {"held": gateway.budget.used_bytes, "limit": gateway.budget.max_bytes},
        "workers": _workers(gateway.all_schedules),
        "brokers": [
            {
                "node": node,
                "address": shown(str(broker.address)),
                "reachable": not broker.why_not,
                "why_not": shown(broker.why_not),
                "seconds_ago": round(max(0.0, now - broker.at), 1),
            }
            for node, broker in sorted(brokers.items())
        ],
        "audit_trail": _audit_trail(gateway.audit_trail),
        "settings_generation": gateway.settings_position,
        "producers": gateway.producers.count,
    }


def topics(counts_by_topic: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return the counts of topics, those first with the most records that are not stored."""

    def lost(topic: str) -> int:
        return sum(
            count
            for outcome, count in counts_by_topic[topic].items()
            if outcome not in _OTHER_OUTCOMES
        )

    ordered = sorted(counts_by_topic, key=lambda topic: (-lost(topic), topic))
    return [
        {"topic": shown(topic), "records": counts_by_topic[topic]} for topic in ordered[:TOPICS_MAX]
    ]


def plans(digests: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the digests of topics' plans, by name."""
    return [{"topic": shown(topic), "plan": digests[topic]} for topic in sorted(digests)]


def _workers(schedules: Sequence[Schedule]) -> dict[str, Any]:
    states = Counter(
        worker.state.name.lower() for schedule in schedules for worker in schedule.pool.alive
    )
    return {
        "states": states,
        "limit": sum(schedule.pool.limit for schedule in schedules),
        "waiting": sum(schedule.waiting for schedule in schedules),
        "sent": sum(schedule.sent for schedule in schedules),
    }


def _audit_trail(trail: AuditTrail | None) -> dict[str, int] | None:
    return None if trail is None else {"written": trail.written, "left_out": trail.left_out}


@cache
def _host() -> str:
    return socket.gethostname()
