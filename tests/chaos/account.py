"""What came of one producer: what it was told, against what is stored."""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.stale_verification import Refusal

WHOLE: Final = 30
"""Of so many records in succession, a transaction's, all are dropped now and then."""


def is_dropped(value: bytes) -> bool:
    """Tell whether the interceptor drops a record: a third of all, and some transactions whole."""
    return zlib.crc32(value) % 3 == 0 or int(value) // WHOLE % 7 == 3


@dataclass
class Told:
    """What a producer was told, by its own lines.

    Attributes:
        acknowledged: Values; those of committed transactions.
        failed: Values that were not acknowledged in the end, with the errors.
        aborted: Why transactions were aborted that were then done again.
        fatal: Why it could not go on.
        ended: Whether it ended by itself.
    """

    acknowledged: list[bytes] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)
    ended: bool = False

    def note(self, event: str, value: str, at: str, text: str) -> None:
        """Take in a line of the producer."""
        match event:
            case "acknowledged":
                self.acknowledged.append(value.encode())
            case "ended":
                self.ended = True
            case "failed" | "aborted" | "fatal":
                getattr(self, event).append(f"{at} {value} {text}")
            case _:
                raise AssertionError(f"a producer says {event!r}")


@dataclass(frozen=True)
class Account:
    """Lists are of values; what is in them should not be.

    Attributes:
        lost: Acknowledged, to be kept, and not stored.
        doubled: Stored more than once.
        disordered: Stored behind a later one of the same key (the first time they are stored).
        undropped: Stored though it was to be dropped.
        misplaced: Not where records belong by `penstock.mode`.
        refused_in_order: Its batches that Kafka refused by its own fault.
    """

    told: Told
    stored: int
    lost: list[bytes]
    doubled: list[bytes]
    disordered: list[bytes]
    undropped: list[bytes]
    misplaced: Sequence[bytes] = ()
    refused_in_order: Sequence[Refusal] = ()

    def has(self, what: str) -> bool:
        """Whether there is any of what an attribute, here or of `Told`, counts."""
        return bool(getattr(self if hasattr(self, what) else self.told, what))

    @property
    def is_remarkable(self) -> bool:
        """Whether anything is worth looking at; aborted transactions are done again."""
        unusual = ("doubled", "disordered", "failed", "fatal")
        return self.is_broken or any(map(self.has, unusual))

    @property
    def is_broken(self) -> bool:
        """Whether something is wrong that no client does by itself."""
        wrong = self.lost or self.undropped or self.misplaced
        ended = self.told.fatal and not self.refused_in_order
        return bool(wrong or ended or not self.told.ended)

    def __str__(self) -> str:
        counts = {
            "acknowledged": len(self.told.acknowledged),
            "stored": self.stored,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "out of order": len(self.disordered),
            "undropped": len(self.undropped),
            "misplaced": len(self.misplaced),
            "failed": len(self.told.failed),
            "aborted": len(self.told.aborted),
            "fatal": len(self.told.fatal),
            "refused in order by Kafka": len(self.refused_in_order),
            "did not end": int(not self.told.ended),
        }
        shown = ("acknowledged", "stored")
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n or name in shown)


def account(
    told: Told,
    stored: Sequence[tuple[bytes, bytes]],
    *,
    drops: bool,
    always: bool = True,
) -> Account:
    """Settle accounts.

    Args:
        told: What the producer was told.
        stored: Key and value of every record, in the partitions' order.
        drops: Whether an interceptor stands between.
        always: Whether it stood there all the time.
    """
    values = Counter(value for _, value in stored)
    kept = [value for value in told.acknowledged if not (drops and is_dropped(value))]
    return Account(
        told=told,
        stored=len(stored),
        lost=[value for value in kept if value not in values],
        doubled=[value for value, count in values.items() if count > 1],
        disordered=list(_disordered(stored)),
        undropped=[value for value in values if drops and always and is_dropped(value)],
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
