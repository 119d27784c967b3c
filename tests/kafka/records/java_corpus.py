"""The batches that Kafka's own code writes, and what it reads."""

import random
from collections.abc import Iterable, Iterator

from penstock.policy import Header, Record

NOW = 1_700_000_000_000


def corpus() -> Iterator[list[Record]]:
    """Batches of records of all kinds, small and large."""
    chance = random.Random(14)

    def field(most: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 70, most)))

    def headers() -> tuple[Header, ...]:
        return tuple(
            Header(chance.choice(("", "a", "schlüssel", "n" * 200)), field(10))
            for _ in range(chance.choice((0, 0, 1, 5)))
        )

    for count in (1, 2, 60, 70, 500):
        yield [
            Record(NOW + chance.randrange(-5, 100_000), field(200), field(9000 // count), headers())
            for _ in range(count)
        ]


def line(codec: str, records: Iterable[Record]) -> str:
    def field(data: bytes | None) -> str:
        return "-" if data is None else "x" + data.hex()

    def word(record: Record) -> str:
        headers = [f for h in record.headers for f in (field(h.key.encode()), field(h.value))]
        return ",".join([str(record.timestamp), field(record.key), field(record.value), *headers])

    return " ".join([codec, *map(word, records)])
