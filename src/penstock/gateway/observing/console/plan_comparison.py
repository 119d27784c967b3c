"""Compares the plans that a gateway and its peers enforce for each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from penstock.gateway.observing.metrics.exposition import Gauge
from penstock.gateway.observing.plan_watch import TOPICS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.gateway.observing.console.merging import Named

log = structlog.get_logger()

AFTER_S: Final = 60.0
"""While gateways reload a file one after another, their plans differ for less."""
EVERY_S: Final = 10.0
FORGOTTEN_S: Final = 600.0
"""For so long a difference stays of a gateway that no longer answers."""
TEXTS_MAX: Final = 10
"""The most topics that are named on the console, and in a line of the log."""
_NONE: Final = "no plan"


class _Difference(NamedTuple):
    """Different plans of a topic.

    Attributes:
        since: The monotonic time in seconds.
        digests: The digest of each gateway, by the gateway's name.
        is_reported: Whether it has lasted for `AFTER_S`.
        seen: When it was seen last.
    """

    since: float
    seen: float
    digests: Mapping[str, str]
    is_reported: bool


class PlanComparison:
    """The topics for which gateways enforce different plans."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin.

        Args:
            clock: Returns the monotonic time in seconds.
        """
        self._clock = clock
        self._differences: dict[str, _Difference] = {}
        self._looked = -EVERY_S

    @property
    def topics(self) -> list[str]:
        """Those whose plans have been different for more than a minute, by name."""
        return sorted(
            topic for topic, difference in self._differences.items() if difference.is_reported
        )

    @property
    def texts(self) -> list[str]:
        """A sentence for each of them, or for the first and the number of the others."""
        topics = self.topics
        texts = [
            f"gateways enforce different plans for {topic}: "
            + ", ".join(
                f"{name} {digest}" for name, digest in self._differences[topic].digests.items()
            )
            for topic in topics[:TEXTS_MAX]
        ]
        if len(topics) > TEXTS_MAX:
            texts.append(
                f"gateways enforce different plans for {len(topics) - TEXTS_MAX} more topics"
            )
        return texts

    def look(self, gateways: Sequence[Named]) -> None:
        """Compare the plans of gateways that answer; log differences that last, and their end.

        A gateway without a plan for a topic differs, unless it has as many plans as it shows. One
        without any plan has not looked them up yet, or is of an older version.
        """
        now = self._clock()
        if now - self._looked < EVERY_S:
            return
        self._looked = now
        gateways = [gateway for gateway in gateways if gateway.state.plans]
        new_topics, equal_topics = self._take(gateways, now)
        if new_topics:
            log.warning(
                "gateways enforce different plans",
                topics=new_topics[:TEXTS_MAX],
                count=len(new_topics),
                plans=self._differences[new_topics[0]].digests,
            )
        if equal_topics:
            log.info(
                "gateways enforce the same plans again",
                topics=equal_topics[:TEXTS_MAX],
                count=len(equal_topics),
            )

    def _take(self, gateways: Sequence[Named], now: float) -> tuple[list[str], list[str]]:
        """Return the topics whose difference has lasted now, and those where it has ended."""
        new_topics, equal_topics = [], []
        names = {gateway.name for gateway in gateways}
        old_differences, self._differences = self._differences, {}
        for topic, digests in _different(gateways):
            last = old_differences.pop(topic, _Difference(now, now, digests, is_reported=False))
            is_reported = now - last.since >= AFTER_S
            if is_reported and not last.is_reported:
                new_topics.append(topic)
            self._differences[topic] = _Difference(last.since, now, digests, is_reported)
        for topic, difference in old_differences.items():
            if not difference.digests.keys() <= names:
                if now - difference.seen < FORGOTTEN_S:
                    self._differences[topic] = difference
            elif difference.is_reported:
                equal_topics.append(topic)
        return new_topics, equal_topics


def gauge(comparison: PlanComparison | None) -> Gauge:
    """Return the number of topics with different plans as a metric; no value without peers."""
    return Gauge(
        "penstock_topics_with_different_plans",
        "Topics with different plans on this gateway and its peers for more than a minute.",
        (),
        {} if comparison is None else {(): len(comparison.topics)},
    )


def _different(gateways: Sequence[Named]) -> list[tuple[str, dict[str, str]]]:
    """Return the topics with different plans, and the digest of each gateway by its name."""
    plans = [gateway.state.plans for gateway in gateways]
    if not plans or all(other == plans[0] for other in plans[1:]):
        return []
    topics: dict[str, None] = {}
    for digests in plans:
        topics |= dict.fromkeys(digests)
    differences = []
    for topic in topics:
        by_gateway = {
            gateway.name: gateway.state.plans.get(topic, _NONE)
            for gateway in gateways
            if topic in gateway.state.plans or len(gateway.state.plans) < TOPICS_MAX
        }
        if len(set(by_gateway.values())) > 1:
            differences.append((topic, by_gateway))
    return differences
