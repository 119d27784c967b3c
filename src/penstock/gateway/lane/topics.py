"""Announces topics whose judges are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.gateway.context.topic_names import TopicNames
    from penstock.kafka.wire.requests.produce import TopicData


class KnownTopics(Protocol):
    """Remembers topics; see `penstock.gateway.lane.lane.Lane`."""

    def passed(
        self,
        topics: Iterable[TopicData],
        judged_topics: Iterable[tuple[TopicPlan, TopicData]],
        names: TopicNames,
    ) -> None:
        """Remember the topics of a request that was forwarded where it was received.

        Args:
            judged_topics: Those that have policies, which have accepted their batches. Nobody
                judges the others now.
            names: The names of the topics' ids that the connection knows, and until when.
        """

    def accepts(self, plan: TopicPlan, version: int, data: memoryview) -> bool:
        """Return whether a large batch is accepted that native threads could judge.

        Args:
            plan: The topic's policies.
            version: The version of the Produce request.
        """

    def forget(self, name: str | None) -> None:
        """Forget a topic, or all of them: Python has to process the next batches.

        After that no batch passes natively by earlier knowledge. Any thread may call it.
        """
