"""Whether the response of a partition's leader about a batch is final.

A leader that does not have a batch may be wrong: a former leader may have it, and lead again before
it has fetched from this leader (KIP-101). Not once all replicas in sync have a record of this
leader's epoch: a replica with that record has no other record before it. A replica that does not
fetch is not in sync any more after `replica.lag.time.max.ms` (Partition.scala, `maybeShrinkIsr`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from penstock.kafka.cluster.metadata import MetadataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.kafka.cluster.metadata import ClusterMetadata
    from penstock.kafka.wire.requests.leaders import Leader

SETTLED_AFTER_S: Final = 45.0
"""By then a leader has given up a replica that fetched nothing for 30 s
(`replica.lag.time.max.ms`): it looks every 15 s."""
PARTITIONS_MAX: Final = 10_000
_AT_ONCE: Final = 100
"""How many topics are read before requests have their turn again."""


class Leaders:
    """Since when the leaders of partitions are known."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Know none.

        Args:
            now: Returns the time in seconds.
        """
        self._now = now
        self._since: OrderedDict[tuple[str, int], tuple[int, float]] = OrderedDict()

    def see(self, topic: str, partition: int, epoch: int) -> None:
        """Record a leader that returned its epoch to a request that was not for a batch.

        Its response may be late: an epoch before the last is of a former leader.
        """
        last_epoch, _ = self._since.get((topic, partition), (epoch - 1, 0.0))
        if epoch > last_epoch:
            self._begin(topic, partition, epoch)

    def are_final(self, topic: str, partition: int, leader: Leader) -> bool:
        """Whether a batch that a leader does not have is stored nowhere.

        Args:
            leader: The leader by its own response.
        """
        if leader.has_committed:
            return True
        last_epoch, start = self._since.get((topic, partition), (None, 0.0))
        if last_epoch != leader.epoch:  # those of a topic that was created again begin at 0
            start = self._begin(topic, partition, leader.epoch)
        return start <= self._now() - SETTLED_AFTER_S

    def _begin(self, topic: str, partition: int, epoch: int) -> float:
        """Begin the time of a leader, and return its start: now."""
        place, start = (topic, partition), self._now()
        self._since[place] = epoch, start
        self._since.move_to_end(place)
        if len(self._since) > PARTITIONS_MAX:
            self._since.popitem(last=False)
        return start


async def leaders_of(
    cluster: ClusterMetadata, wants: Callable[[str], bool], most: int
) -> dict[tuple[str, int], int]:
    """Return the epochs of leaders of topics' partitions, as far as the cluster returns them.

    Args:
        cluster: Has the names of the topics, and the leaders.
        wants: Returns whether a topic is required.
        most: The most partitions.
    """
    try:
        topics = await cluster.topics()
    except MetadataUnavailableError:
        return {}
    partitions: list[tuple[str, int]] = []
    for count, (name, (of_topic, _)) in enumerate(topics.items()):
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)
        if wants(name):
            partitions += [(name, number) for number in range(of_topic)]
        if len(partitions) >= most:
            break
    return await asyncio.to_thread(cluster.leader_epochs, partitions[:most])
