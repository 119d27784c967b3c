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
"""While gateways reload one after another, their plans differ for less."""
TEXTS_MAX: Final = 10
"""The most topics that are named on the console."""
_NONE: Final = "no plan"


class _Difference(NamedTuple):
    """Different plans of a topic.

    Attributes:
        since: The monotonic time in seconds.
        digests: The digest of each gateway, by the gateway's name.
        is_reported: Whether it has lasted for `AFTER_S`.
    """

    since: float
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
        """Compare the plans of gateways that answer; log a difference that lasts, and its end.

        A gateway without a plan for a topic differs, unless it has as many plans as it shows.
        """
        now = self._clock()
        old_differences, self._differences = self._differences, {}
        for topic, digests in _different(gateways):
            last = old_differences.pop(topic, _Difference(now, digests, is_reported=False))
            is_reported = now - last.since >= AFTER_S
            if is_reported and not last.is_reported:
                log.warning("gateways enforce different plans", topic=topic, plans=digests)
            self._differences[topic] = _Difference(last.since, digests, is_reported)
        for topic, difference in old_differences.items():
            if difference.is_reported:
                log.info("gateways enforce the same plan again", topic=topic)


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
    if all(other == plans[0] for other in plans[1:]):
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
