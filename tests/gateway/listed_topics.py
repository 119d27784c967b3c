"""A cluster whose topics are listed."""

from collections.abc import Iterable
from uuid import UUID

from penstock.kafka.cluster.metadata import MetadataUnavailableError


class ListedTopics:
    """Topics with a partition each, or no response: a topic named `away` alone."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def topics(self) -> dict[str, tuple[int, int]]:
        """Return partitions and replicas by topic."""
        if self.names == ("away",):
            raise MetadataUnavailableError("the topics cannot be listed")
        return dict.fromkeys(self.names, (1, 1))

    def ids(self, names: Iterable[str]) -> dict[str, UUID]:
        """Return an id for each topic, by the length of its name."""
        return {name: UUID(int=len(name)) for name in names}

    def leader_epochs(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the same epoch for each partition."""
        return dict.fromkeys(partitions, 7)
