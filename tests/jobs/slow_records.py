"""Records of a topic, and a policy that is slow."""

from collections import Counter

from penstock.kafka.local import LocalKafka
from tests.integration.reading import read_topic

COUNT, PARTITIONS = 4000, 8
SLOW = """
import time
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        time.sleep(0.004)
        if record.value.startswith(b"bad"): raise InvalidRecordException("bad is not good")
"""


def records(
    count: int = COUNT, partitions: int = PARTITIONS, first: int = 0
) -> list[dict[str, object]]:
    return [
        {"value": b"%s-%d" % (b"bad" if n % 10 == 0 else b"good", n), "partition": n % partitions}
        for n in range(first, first + count)
    ]


def values(kafka: LocalKafka, *topics: str) -> Counter[bytes]:
    """Return how often each committed value is in topics."""
    return Counter(
        value
        for name in topics
        for _, _, value, _ in read_topic(kafka.bootstrap_servers, name, isolation="read_committed")
    )
