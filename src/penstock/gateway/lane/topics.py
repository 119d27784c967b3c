"""Topics of which it is known what judges their batches: who is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.wire.requests.produce import TopicData


class KnownTopics(Protocol):
    """Remembers topics; see `penstock.gateway.lane.lane.Lane`."""

    def passed(
        self, topics: Iterable[TopicData], judged: Iterable[tuple[TopicPlan, TopicData]]
    ) -> None:
        """Remember the topics of a request that was forwarded where it was received.

        Args:
            topics: All of them.
            judged: Those that have policies, which have accepted their batches. Nobody judges the
                others now.
        """

    def forget_judged(self) -> None:
        """Forget those that have policies: a batch is to come again before what is behind it."""
