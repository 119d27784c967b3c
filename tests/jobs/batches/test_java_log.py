"""Split batches that Kafka's own classes store and compact, read by Kafka's consumer."""

import pytest

from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import BrokerRecordValidator, InvalidRecordException
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.memory import LIMIT
from tests.kafka.records.encoding import CODECS
from tests.kafka.records.java_corpus import corpus, line
from tests.kafka.records.java_log import BASE, compactable, java

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("reading", "nothing_is_buffered")]
ADDED = 10
"""Headers of a dead letter besides its own."""


class NoEven(BrokerRecordValidator):
    """Refuses values of an even length."""

    def validate_record(self, topic_partition, key, value, headers):
        even = value is not None and len(value) % 2 == 0
        return InvalidRecordException("even") if even else None


@pytest.fixture(scope="module")
def stored():
    """Return stored batches, and the records that a consumer reads of each."""
    lines = [
        " ".join(
            [what, codec, kind, str(BASE), *line(codec, list(compactable(corpu))).split(" ")[1:]]
        )
        for codec in CODECS
        for corpu in corpus()
        for kind in ("CreateTime", "LogAppendTime")
        for what in ("store", "compact")
    ]
    batches = list(map(bytes.fromhex, java(lines)))
    return list(zip(batches, consumed(batches), strict=True))


def consumed(batches):
    """Yield each record as a consumer reads it: offset, timestamp, key, value, headers."""
    return [
        [tuple(record.split(",")) for record in read.split(" ") if record]
        for read in java(f"read {bytes(batch).hex()}" for batch in batches)
    ]


def is_refused(record):
    value = record[3]
    return value != "-" and (len(value) - 1) // 2 % 2 == 0


@pytest.mark.cases(1)
def test_each_record_is_unchanged_in_the_right_topic(stored):
    judge = BatchJudge(chain(validators=[NoEven]), TOPIC_ID)
    job = Split(
        judge, "t", 0, accepted=Target("clean", 1, LIMIT), rejected=Target("dead", 1, LIMIT)
    )
    kinds = set()
    written = [
        (java_batch, before, batch)
        for data, before in stored
        for batch in [read_stored_batch(data, max_decompressed_bytes=LIMIT)]
        for java_batch in (*job.process(batch, RecordCounts()), *job.rest())
    ]
    read = consumed(item.batch for item, _, _ in written)
    for (entry, before, batch), after in zip(written, read, strict=True):
        is_dead = entry.topic == "dead"
        expected = [record for record in before if is_refused(record) == is_dead]
        added = 2 * ADDED if is_dead else 0
        own = [record[: len(record) - added] for record in after]
        assert [record[2:] for record in own] == [record[2:] for record in expected]
        if is_dead:
            offsets = [bytes.fromhex(record[-added + 5][1:]) for record in after]
            assert offsets == [record[0].encode() for record in expected]
        else:
            assert [record[1] for record in own] == [record[1] for record in expected]
        kinds.add((entry.topic, entry.batch is batch.data, batch.codec, batch.is_log_append_time))
    whole = {(codec, is_log_append_time) for _, whole, codec, is_log_append_time in kinds if whole}
    assert whole == {(codec, False) for codec in CODECS}
    assert len(kinds) == 5 * len(CODECS)
