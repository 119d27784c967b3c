"""Topics with named policies: the expected place of their records.

A policy refuses records of topics in the modes `quarantine` and `mark`. Another accepts all in the
mode `enforce`, so that workers judge them through rings for native threads.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

QUARANTINE, MARK, ENFORCE = "quarantine", "mark", "enforce"
MODES: Final = (QUARANTINE, MARK)
DEAD: Final = ".dead"
POLICY: Final = """
class Fifth(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        number = int(value)
        is_bad = number % 5 == 1 or number // 40 % 6 == 4
        return InvalidRecordException("bad") if is_bad else None

class Slow(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        # A topic with a slow batch goes through no ring for some time: others never have any.
        is_slow = "transactional" in topic_partition.topic and zlib.crc32(value) % 211 == 0
        time.sleep(0.2 if is_slow else 0)
"""
PROPERTIES: Final = {
    "policies": "fifth,slow",
    "policies.fifth.type": "policies.Fifth",
    "policies.slow.type": "policies.Slow",
    f"topics.*-{ENFORCE}.penstock.policies": "slow",
    **{f"topics.*-{mode}.penstock.policies": "fifth" for mode in MODES},
    **{f"topics.*-{mode}.penstock.mode": mode for mode in MODES},
    "topic.settings.topic": "",
}
"""Interceptors do not process topics with these names."""
_MARKS: Final = {
    "__mark.errors.policy": b"fifth",
    "__mark.errors.code": b"87",
    "__mark.errors.message": b"bad",
}

Row = tuple[int, bytes, bytes, list[tuple[str, bytes]]]
"""Partition, key, value and headers."""


def is_bad(value: bytes) -> bool:
    """Return whether the policy refuses a record: a fifth of all, and some whole batches."""
    number = int(value)
    return number % 5 == 1 or number // 40 % 6 == 4


@dataclass(frozen=True)
class Placement:
    """The stored records of a producer.

    Attributes:
        kept: Key and value of each record in the order of its partition, and dead letters without
            an order; a letter that is stored twice under the same id is listed once.
        misplaced: Values that are in both topics, in the wrong topic, without a reason or an id, or
            with the mark of another record.
        repeated: Values of dead letters that are stored again under the same id.
    """

    kept: list[tuple[bytes, bytes]]
    misplaced: list[bytes]
    repeated: Sequence[bytes] = ()


def placement(mode: str, topic: str, stored: Sequence[Row], letters: Sequence[Row]) -> Placement:
    """Compare the places of records with the expected places.

    Args:
        mode: The mode of the topic.
        topic: The name of the topic.
        stored: The records of the topic.
        letters: The records of its dead letter topic.
    """
    if mode == ENFORCE:
        wrong = [value for _, _, value, headers in stored if headers]
        wrong += [value for _, _, value, _ in letters]
        return Placement([(key, value) for _, key, value, _ in stored], wrong)
    if mode == MARK:
        wrong = [value for _, _, value, headers in stored if not _is_marked(value, headers)]
        wrong += [value for _, _, value, _ in letters]
        return Placement([(key, value) for _, key, value, _ in stored], wrong)
    wrong = [value for _, _, value, headers in stored if is_bad(value) or headers]
    wrong += [row[2] for row in letters if not _is_letter(topic, row)]
    values = {value for _, _, value, _ in stored}
    wrong += [value for _, _, value, _ in letters if value in values]
    kept = [(key, value) for _, key, value, _ in stored]
    # Dead letters have no order: each gets its own key.
    once = list(_once(letters))
    kept += [(b"dead " + value, value) for _, _, value, _ in once]
    repeated = Counter(value for _, _, value, _ in letters)
    repeated.subtract(value for _, _, value, _ in once)
    return Placement(kept, wrong, list(repeated.elements()))


def _is_marked(value: bytes, headers: Sequence[tuple[str, bytes]]) -> bool:
    return list(headers) == (list(_MARKS.items()) if is_bad(value) else [])


def _is_letter(topic: str, row: Row) -> bool:
    partition, _, value, headers = row
    found = dict(headers)
    return (
        is_bad(value)
        and len(found) == len(headers)
        and found.get("__dlq.errors.topic") == topic.encode()
        and found.get("__dlq.errors.partition") == b"%d" % partition
        and found.get("__penstock.policy") == b"fifth"
        and found.get("__dlq.id", b"").startswith(f"{topic}-{partition}:".encode())
    )


def _once(letters: Iterable[Row]) -> Iterable[Row]:
    """Return letters as `redrive` reads them: each id once."""
    first: dict[bytes, Row] = {}
    for row in letters:
        first.setdefault(dict(row[3]).get("__dlq.id", b""), row)
    return first.values()
