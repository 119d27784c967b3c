"""A redrive of dead letters that are made here."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiokafka.partitioner import DefaultPartitioner

from penstock.engine.chain import Chain
from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.batches.returning_letters import Redrive
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.memory import LIMIT, rows_of
from tests.jobs.batches.policies import NoBad, Repair

NOW = 1_700_000_000_000
LATER = 1_800_000_000_000


def NONE(topic: str, partition: int, offsets: Collection[int]) -> dict[int, Record]:  # noqa: N802 - there are no records
    return {}


def partition_of(key: bytes | None, partitions: int) -> int:
    """Return where another client's producer writes a record."""
    return DefaultPartitioner()(key, list(range(partitions)), list(range(partitions)))


def letter(
    value: bytes | None,
    *,
    partition: int = 1,
    offset: int = 9,
    timestamp: int = NOW,
    replays: int = 0,
    key: bytes | None = b"k",
    more: Sequence[Header] = (),
) -> Record:
    headers = (
        Header("own", b"1"),
        Header("__dlq.errors.topic", b"orders"),
        Header("__dlq.errors.partition", b"%d" % partition),
        Header("__dlq.errors.offset", b"%d" % offset),
        Header("__penstock.timestamp", b"%d" % timestamp),
        Header("__penstock.replays", b"%d" % replays),
        *more,
    )
    return Record(LATER, key, value, headers)


def redrive(
    stored: bytes,
    *,
    counts: RecordCounts | None = None,
    policies: Chain | list[type] | None = None,
    most: int = 5,
    size: int = LIMIT,
    topics: Sequence[str] = ("orders",),
    originals: Callable[..., dict[int, Record]] = NONE,
) -> dict[str, list[Any]]:
    """Return the records that are written, by topic, and how many batches they are."""
    if not isinstance(policies, Chain):
        policies = chain(interceptors=[Repair], validators=policies or [NoBad])
    job = Redrive(
        BatchJudge(policies, TOPIC_ID), "dead", 2,
        target=Target("orders", 4, size), again=Target("dead", 3, size),
        parked=Target("parked", 2, size), replays_max=most, topics=LetterTopics(topics),
        originals=originals, clock=lambda: LATER / 1000 + 60,
    )  # fmt: skip
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    written = {"orders": [], "dead": [], "parked": []}
    for topic, partition, data, source in job.process(batch, counts or RecordCounts()):
        assert (source.topic, source.partition) == ("dead", 2)
        assert len(data) <= size
        written[topic] += rows_of(data, topic, partition)
    return written
