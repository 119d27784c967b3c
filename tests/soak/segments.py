"""The headers of record batches as a broker stores them, with producer ids and sequence numbers.

Read from the segments themselves, as clients do not show the sequence numbers of batches.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.kafka.local import LocalKafka
from penstock.kafka.records.header import CONTROL, HEADER, PREFIX_BYTES


class Batch(NamedTuple):
    """The header of a record batch (message format 2).

    Attributes:
        first_timestamp_ms: The timestamp of its first record, since 1970.
        is_control: Whether it has the marker of a transaction.
    """

    partition: int
    first_offset: int
    records: int
    producer_id: int
    epoch: int
    first_sequence: int
    leader_epoch: int
    first_timestamp_ms: int
    is_control: bool


def batches(kafka: LocalKafka, topic: str) -> Iterator[Batch]:
    """Return the batches of a topic, partition by partition in the order of their offsets.

    Args:
        kafka: Its first broker, which has every partition, is read.
        topic: The topic's name.
    """
    data = kafka.folder / f"node-{kafka.nodes[0].node_id}" / "data"
    folders = {int(file.name.rpartition("-")[2]): file for file in data.glob(f"{topic}-[0-9]*")}
    for partition in sorted(folders):
        for segment in sorted(folders[partition].glob("*.log")):
            yield from _of(segment.read_bytes(), partition)


class Epochs:
    """The producer id and epoch of each stored record of a topic.

    Args:
        found: The topic's batches, partition by partition in the order of their offsets.
    """

    def __init__(self, found: Iterable[Batch]) -> None:
        self._batches: dict[int, list[Batch]] = defaultdict(list)
        for batch in found:
            self._batches[batch.partition].append(batch)

    def of(self, partition: int, offset: int) -> tuple[int, int] | None:
        """Return producer id and epoch of a record, or None if its batch has none."""
        batches_of = self._batches[partition]
        batch = batches_of[
            bisect_right(batches_of, offset, key=lambda candidate: candidate.first_offset) - 1
        ]
        return (batch.producer_id, batch.epoch) if batch.producer_id >= 0 else None


def _of(segment: bytes, partition: int) -> Iterator[Batch]:
    place = 0
    while place + HEADER.size <= len(segment):
        (offset, length, leader_epoch, _, _, attributes, _, first_ms, _, producer_id, epoch,
         sequence, records) = HEADER.unpack_from(segment, place)  # fmt: skip
        if length <= 0:  # what follows is not written yet
            return
        yield Batch(partition, offset, records, producer_id, epoch, sequence, leader_epoch,
                    first_ms, bool(attributes & CONTROL))  # fmt: skip
        place += PREFIX_BYTES + length
