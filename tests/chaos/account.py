"""The result of a producer: its delivery reports against the stored records."""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.stale_verification import Refusal
from tests.chaos.unrecognized import Unrecognized

WHOLE: Final = 30
"""The number of consecutive records of a transaction that are sometimes all dropped."""


def is_dropped(value: bytes) -> bool:
    """Return whether a record is dropped: a third of all, and some whole transactions."""
    return zlib.crc32(value) % 3 == 0 or int(value) // WHOLE % 7 == 3


@dataclass
class DeliveryReports:
    """The delivery reports of a producer, read from the lines that it prints.

    Attributes:
        acknowledged: Values, of transactions only if committed.
        failed: Values that were never acknowledged, with the errors.
        aborted: The reasons for which transactions were aborted; they were retried.
        fatal: The fatal error.
        stuck: The partitions that librdkafka left at a broker which is not their leader.
        ended: Whether it ended by itself.
    """

    acknowledged: list[bytes] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    ended: bool = False

    @property
    def failed_values(self) -> list[bytes]:
        """The values that were never acknowledged."""
        return [line.split()[1].encode() for line in self.failed]

    def note(self, event: str, value: str, at: str, text: str) -> None:
        """Read a line of the producer."""
        match event:
            case "acknowledged":
                self.acknowledged.append(value.encode())
            case "ended":
                self.ended = True
            case "failed" | "aborted" | "fatal" | "stuck":
                getattr(self, event).append(f"{at} {value} {text}")
            case _:
                raise AssertionError(f"a producer says {event!r}")


@dataclass(frozen=True)
class Account:
    """The differences between delivery reports and stored records; lists are of values.

    Attributes:
        lost: Acknowledged and not dropped, but not stored.
        doubled: Stored more than once.
        disordered: First stored after a later value of the same key.
        undropped: Stored although the interceptor drops it.
        misplaced: In the wrong topic for the `penstock.mode`, or dead letters that are stored twice
            by a gateway that was not restarted.
        refused_in_order: Its batches that Kafka refused because of a defect of Kafka.
        unrecognized: The retries of its stored batches that Kafka did not recognize.
        failed_unstored: Failed, and not stored.
    """

    deliveries: DeliveryReports
    stored: int
    lost: list[bytes]
    doubled: list[bytes]
    disordered: list[bytes]
    undropped: list[bytes]
    misplaced: Sequence[bytes] = ()
    refused_in_order: Sequence[Refusal] = ()
    unrecognized: Sequence[Unrecognized] = ()
    failed_unstored: Sequence[bytes] = ()

    def has(self, what: str) -> bool:
        """Return whether a list of this object or of its `DeliveryReports` has values."""
        return bool(getattr(self if hasattr(self, what) else self.deliveries, what))

    def is_of_client(self, what: str) -> bool:
        """Return whether a fault has a cause in a client or broker that is known by name.

        A limit of Kafka fails records that are stored; librdkafka may stay at a former leader.
        """
        if what == "failed" and self.deliveries.stuck:
            return True
        return bool(self.unrecognized) and not (what == "failed" and self.failed_unstored)

    @property
    def is_remarkable(self) -> bool:
        """Return whether anything is unusual; aborted transactions are retried, so they are not."""
        unusual = ("doubled", "disordered", "failed", "fatal")
        return self.is_broken or any(map(self.has, unusual))

    @property
    def is_broken(self) -> bool:
        """Return whether there is a fault that no client causes by itself."""
        wrong = self.lost or self.undropped or self.misplaced
        is_excused = self.refused_in_order or self.deliveries.stuck
        ended = self.deliveries.fatal and not is_excused
        return bool(wrong or ended or not self.deliveries.ended)

    def __str__(self) -> str:
        counts = {
            "acknowledged": len(self.deliveries.acknowledged),
            "stored": self.stored,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "out of order": len(self.disordered),
            "undropped": len(self.undropped),
            "misplaced": len(self.misplaced),
            "failed": len(self.deliveries.failed),
            "aborted": len(self.deliveries.aborted),
            "fatal": len(self.deliveries.fatal),
            "stuck partitions of librdkafka": len(self.deliveries.stuck),
            "refused in order by Kafka": len(self.refused_in_order),
            "stored and not recognized by Kafka": len(self.unrecognized),
            "did not end": int(not self.deliveries.ended),
        }
        shown = ("acknowledged", "stored")
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n or name in shown)


def account(
    deliveries: DeliveryReports,
    stored: Sequence[tuple[bytes, bytes]],
    *,
    drops: bool,
    always: bool = True,
) -> Account:
    """Compare the delivery reports of a producer with the stored records.

    Args:
        deliveries: The delivery reports of the producer.
        stored: Key and value of every record, in the partitions' order.
        drops: Whether an interceptor that drops records processed the records.
        always: Whether the interceptor was active all the time.
    """
    values = Counter(value for _, value in stored)
    kept = [value for value in deliveries.acknowledged if not (drops and is_dropped(value))]
    return Account(
        deliveries=deliveries,
        stored=len(stored),
        lost=[value for value in kept if value not in values],
        doubled=[value for value, count in values.items() if count > 1],
        disordered=list(_disordered(stored)),
        undropped=[value for value in values if drops and always and is_dropped(value)],
        failed_unstored=[
            value
            for value in deliveries.failed_values
            if not (drops and is_dropped(value)) and value not in values
        ],
    )


def _disordered(stored: Iterable[tuple[bytes, bytes]]) -> Iterable[bytes]:
    last: dict[bytes, int] = {}
    seen: set[bytes] = set()
    for key, value in stored:
        if value in seen:
            continue
        seen.add(value)
        if int(value) < last.get(key, -1):
            yield value
        last[key] = max(last.get(key, -1), int(value))
