"""Makes one state of those of several gateways, as if one gateway had seen it all.

Counts add up. Of states the worst is shown, with the name of the gateway that has it. What a
gateway is (its version, its file) is listed for each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.gateway.observing.console.recent_refusals import MINUTES_MAX
from penstock.gateway.observing.metrics.counts import CountedTotals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.gateway.observing.console.peer_state import GatewayState

LIMIT_MAX: Final = 2**31 - 1
"""Kafka's way to say that there is no limit."""
_OF_REASON: Final = (
    "topic", "policy", "code", "message", "client", "observed", "outcome",
)  # fmt: skip
_TOPICS_AT_ONCE: Final = 100


class Named(NamedTuple):
    """A gateway's state, and the name that readers know the gateway by."""

    name: str
    state: GatewayState


def merge_figures(gateways: Sequence[Named], troubles: Iterable[str] = ()) -> dict[str, Any]:
    """Return the figures of this moment.

    Args:
        gateways: Those that answer.
        troubles: Sentences about all, such as about one that does not answer.
    """
    heads = [(gateway.name, gateway.state.head) for gateway in gateways]

    def total(*path: str) -> int:
        return sum(_at(head, path) for _, head in heads)

    trails = [head["audit_trail"] for _, head in heads if head["audit_trail"] is not None]
    return {
        "ready": {
            "is_ready": all(head["ready"]["is_ready"] for _, head in heads),
            "missing": [
                f"{name}: {text}" for name, head in heads for text in head["ready"]["missing"]
            ],
            "troubles": [
                *troubles,
                *(f"{name}: {text}" for name, head in heads for text in head["ready"]["troubles"]),
            ],
        },
        "connections": {
            "limit": min(LIMIT_MAX, total("connections", "limit")),
            "states": add_counts(head["connections"]["states"] for _, head in heads),
        },
        "held_bytes": {
            "held": total("held_bytes", "held"),
            "limit": total("held_bytes", "limit"),
            "share": max((held_share(head) for _, head in heads), default=0.0),
        },
        "workers": {
            "states": add_counts(head["workers"]["states"] for _, head in heads),
            **{name: total("workers", name) for name in ("limit", "waiting", "sent")},
        },
        "brokers": merge_brokers(gateways),
        "audit_trail": add_counts(trails) if trails else None,
        "settings_generation": min((head["settings_generation"] for _, head in heads), default=0),
        "producers": total("producers"),
        "restarts": add_counts(head["restarts"] for _, head in heads),
    }


def held_share(head: Mapping[str, Any]) -> float:
    """Return how much of its memory a gateway holds for clients."""
    memory = head["held_bytes"]
    return round(memory["held"] / memory["limit"], 3) if memory["limit"] else 0.0


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of each count."""
    whole: Counter[str] = Counter()
    for part in counts:
        for name, count in part.items():
            whole[name] += count  # `update` would lose those that are 0 in all
    return dict(whole)


def merge_brokers(gateways: Iterable[Named]) -> list[dict[str, Any]]:
    """Return each broker once: out of reach if one gateway cannot reach it."""
    by_node: dict[int, dict[str, Any]] = {}
    for name, state in gateways:
        for broker in state.brokers:
            broker_so_far = by_node.get(broker["node"])
            if broker_so_far is None or (broker_so_far["reachable"] and not broker["reachable"]):
                why_not = f"{name}: {broker['why_not']}" if broker["why_not"] else ""
                by_node[broker["node"]] = {**broker, "why_not": why_not}
    return [by_node[node] for node in sorted(by_node)]


def merge_reloads(gateways: Iterable[Named]) -> dict[str, Any] | None:
    """Return the reload that failed last, or else the last one."""
    reloads = [
        (not reload["worked"], reload["at"], name, reload)
        for name, state in gateways
        if (reload := state.head["reload"]) is not None
    ]
    if not reloads:
        return None
    *_, name, reload = max(reloads, key=lambda entry: entry[:3])
    return {**reload, "why_not": f"{name}: {reload['why_not']}" if reload["why_not"] else ""}


async def merge_topics(gateways: Sequence[Named]) -> dict[str, dict[str, int]]:
    """Return the records of each topic by outcome, in slices."""
    by_topic: dict[str, dict[str, int]] = {}
    number = 0
    for gateway in gateways:
        for topic, counts in gateway.state.topics.items():
            by_topic[topic] = add_counts((by_topic.get(topic, {}), counts))
            number += 1
            if number % _TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
    return by_topic


def reason_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what makes a row the same in all gateways."""
    return tuple(row[name] for name in _OF_REASON)


def merge_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of one reason as one row."""
    latest = max(rows, key=lambda row: row["last"])
    return {
        **latest,
        "count": sum(row["count"] for row in rows),
        "records": sum(row["records"] for row in rows),
        "first": min(row["first"] for row in rows),
        "minutes": _merge_minutes(rows),
    }


def _merge_minutes(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    by_minute: Counter[int] = Counter()
    for row in rows:
        for minute, count in row["minutes"]:
            by_minute[minute] += count
    return [[minute, by_minute[minute]] for minute in sorted(by_minute)[-MINUTES_MAX:]]


def merge_totals(parts: Sequence[CountedTotals]) -> CountedTotals:
    """Return the counts of all."""
    return CountedTotals(
        sum(part.requests for part in parts),
        add_counts(part.records for part in parts),
        sum(part.client_bytes for part in parts),
        sum(part.broker_bytes for part in parts),
        *(
            tuple(map(sum, zip(*(getattr(part, name) for part in parts), strict=True)))
            for name in ("produce", "waiting", "judging", "broker")
        ),
    )


def _at(head: Mapping[str, Any], path: Iterable[str]) -> int:
    value: Any = head
    for name in path:
        value = value[name]
    return int(value)
