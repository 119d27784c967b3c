"""The partitions whose dead letters wait for a broker, and what of them goes into its next request.

A request has one batch for a partition (KIP-98), and a broker handles one request of a connection
at a time. So letters that arrive while a request is pending go together into the next request, from
all connections of clients; those of a partition are joined to one batch. A slow request does not
delay others: they overtake it on other connections, without the partitions that it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.gateway.produce.dead_letters.partition_letters import (
        LetterBatch,
        PartitionLetters,
    )

    Place = tuple[str, int]

CHANNELS: Final = 4
"""The most requests to a broker on their way at once."""
REQUEST_BYTES: Final = 2**20
"""A request takes no more letters when it has so many: Kafka's default of `max.request.size`."""
JOINED_BYTES: Final = 2**18
"""The most bytes of joined letters: less than almost any topic's `max.message.bytes`."""


class LetterQueue:
    """The partitions that wait for a broker: they take turns, and each keeps its order."""

    def __init__(self) -> None:
        self._waiting: dict[Place, PartitionLetters] = {}
        self._free = list(range(CHANNELS - 1, -1, -1))
        self._prompt: set[int] = set()

    def add(self, place: Place, partition: PartitionLetters) -> None:
        """Let the letters of a partition be sent to the broker."""
        self._waiting.setdefault(place, partition)

    def begin(self) -> int | None:
        """Return a channel for a request now; None if the letters go into a later request."""
        if not self._waiting or self._prompt or not self._free:
            return None
        channel = self._free.pop()
        self._prompt.add(channel)
        return channel

    def take(self) -> dict[Place, LetterBatch]:
        """Return the batches of a request, by partition.

        A partition whose batch is on its way, perhaps to its former leader, is left out. It must be
        added again afterwards.
        """
        batches: dict[Place, LetterBatch] = {}
        room = REQUEST_BYTES
        for place, partition in list(self._waiting.items()):
            if partition.is_ready():
                if batches and (partition.next_size > room or partition.goes_alone):
                    break
                batches[place] = batch = partition.take(min(room, JOINED_BYTES))
                room -= REQUEST_BYTES if batch.is_suspect else batch.size
            del self._waiting[place]
        return batches

    def be_slow(self, channel: int) -> None:
        """Let other channels overtake a channel whose request takes long."""
        self._prompt.discard(channel)

    def goes_on(self, channel: int) -> bool:
        """Return whether a channel sends the next request; a prompt channel is preferred."""
        if not self._prompt:
            self._prompt.add(channel)
        return channel in self._prompt

    def end(self, channel: int) -> None:
        """Take a channel back."""
        self._prompt.discard(channel)
        self._free.append(channel)
