"""Topics of which nobody judges the batches: who is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.wire.requests.produce import TopicData


class UnjudgedTopics(Protocol):
    """Remembers such topics; see `penstock.gateway.lane.lane.Lane`."""

    def passed(self, topics: Iterable[TopicData]) -> None:
        """Remember topics of which nobody judges the batches now."""
