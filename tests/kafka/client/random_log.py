"""Logs of batches of all kinds, as brokers store them, without a pattern."""

import random
from typing import NamedTuple

from penstock.kafka.client.protocol.fetch import AbortedTransaction
from penstock.policy import Header, Record
from tests.kafka.client.stored import TRANSACTIONAL, damaged, empty, marker
from tests.kafka.records.encoding import CODECS, encode_stored, zigzag

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
LOG_APPEND_TIME, DELETE_HORIZON = 0x08, 0x40
HEADERS = ((), (), (Header("own", b"1"),), (Header("own", b"1"), Header("none", None)))


class RandomLog(NamedTuple):
    """A partition's log.

    Attributes:
        batches: In order.
        aborted: The transactions that were aborted.
        end: The offset after the last.
    """

    batches: list[bytes]
    aborted: tuple[AbortedTransaction, ...]
    end: int


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.batches: list[bytes] = []
        self.aborted: list[AbortedTransaction] = []
        self.offset = chance.choice((0, 7, 10**12))

    def records(self, count: int) -> list[Record]:
        chance, timestamp = self.chance, NOW + self.chance.randrange(-HOUR_MS, HOUR_MS)
        values = (b"good", b"good", b"good", b"bad", None, b"x" * chance.randrange(200))
        keys = (b"key", None, b"k-%d" % self.offset)
        return [
            Record(
                timestamp + chance.choice((0, 7, -3, HOUR_MS)),
                chance.choice(keys),
                chance.choice(values),
                chance.choice(HEADERS),
            )
            for _ in range(count)
        ]

    def put(self, batch: bytes, count: int) -> None:
        self.batches.append(batch)
        self.offset += count

    def small(self, most: int = 5, **fields: int) -> None:
        """A batch of a few records, compressed or not, with the producers' times or the broker's."""
        count = self.chance.randint(1, most)
        attributes = fields.pop("attributes", 0) | self.chance.choice((0, 0, DELETE_HORIZON))
        if self.chance.random() < 0.2:
            attributes |= LOG_APPEND_TIME
            fields["max_timestamp"] = NOW + self.chance.randrange(HOUR_MS)
        batch = encode_stored(
            self.records(count), base_offset=self.offset, attributes=attributes, **fields
        )
        self.put(batch, count)

    def run(self) -> None:
        for _ in range(self.chance.randint(1, 12)):
            self.small()

    def many(self) -> None:
        for _ in range(450):
            self.small(1)

    def compressed(self) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.small(attributes=self.chance.choice([*CODECS.values()]))

    def small_compressed_only(self) -> None:
        record = Record(NOW, b"k", b"0" * 200_000)
        codec = self.chance.choice((1, 2, 3, 4))
        self.put(encode_stored([record], base_offset=self.offset, attributes=codec), 1)

    def large(self) -> None:
        record = Record(NOW, b"k", self.chance.randbytes(17_000))
        self.put(encode_stored([record, *self.records(3)], base_offset=self.offset), 4)

    def many_records(self) -> None:
        count = self.chance.choice((100, 101))
        self.put(encode_stored(self.records(count), base_offset=self.offset), count)

    def gap(self) -> None:
        self.offset += self.chance.randint(1, 3)

    def compacted(self) -> None:
        deltas = self.chance.choice(([0, 2], [1, 2], [0, 1], [3]))
        batch = encode_stored(
            self.records(len(deltas)), deltas, base_offset=self.offset, last_offset_delta=3
        )
        self.put(batch, 4)

    def emptied(self) -> None:
        self.put(empty(self.offset, 3), 3)

    def bad_checksum(self) -> None:
        self.small()
        self.batches[-1] = damaged(self.batches[-1])

    def bad_section(self) -> None:
        batch = encode_stored(self.records(2), base_offset=self.offset, body=b"\x02\0\x02\0")
        self.put(batch, 2)

    def bad_count(self) -> None:
        self.put(encode_stored(self.records(2), base_offset=self.offset, count=1), 2)

    def descending(self) -> None:
        self.put(encode_stored(self.records(2), [1, 0], base_offset=self.offset), 2)

    def odd_header(self) -> None:
        inside = b"\0" + zigzag(0) + zigzag(0) + b"\x02k\x02v" + zigzag(1) + b"\x02\xff\x021"
        body = zigzag(len(inside)) + inside
        self.put(encode_stored(self.records(1), body=body, base_offset=self.offset), 1)

    def transaction(self) -> None:
        producer, begins = self.chance.randint(1, 3), self.offset
        for _ in range(self.chance.randint(1, 3)):
            if self.chance.random() < 0.5:
                self.small()
            self.small(
                attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=0
            )
        is_committed = self.chance.random() < 0.5
        if not is_committed:
            self.aborted.append(AbortedTransaction(producer, begins))
        self.put(marker(self.offset, producer, commit=is_committed), 1)


KINDS = (
    *(_Writer.run,) * 6, *(_Writer.compressed,) * 3, *(_Writer.gap,) * 2, _Writer.large,
    _Writer.many, _Writer.many_records, _Writer.small_compressed_only, _Writer.compacted,
    _Writer.emptied, _Writer.bad_checksum, _Writer.bad_section, _Writer.bad_count,
    _Writer.descending, _Writer.odd_header, _Writer.transaction, _Writer.transaction,
)  # fmt: skip


def random_log(seed: int, pieces: int = 25) -> RandomLog:
    """A log with some of everything; the same for the same seed."""
    writer = _Writer(random.Random(seed))
    for _ in range(pieces):
        writer.chance.choice(KINDS)(writer)
    return RandomLog(writer.batches, tuple(writer.aborted), writer.offset)
