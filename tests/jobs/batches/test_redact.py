"""Redact changes only what interceptors change."""

import pytest

from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.redact import Redact
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.memory import LIMIT, rows_of
from tests.jobs.batches.policies import Mask, NoBad
from tests.kafka.records.encoding import CODECS, encode_stored

pytestmark = pytest.mark.usefixtures("reading", "nothing_is_buffered")
NOW = 1_700_000_000_000
HEADERS = (Header("own", b"1"), Header("__dlq.errors.topic", b"t"), Header("__penstock.code", b"2"))


def redact(stored, counts, *, interceptors=(Mask,)):
    job = Redact(
        BatchJudge(chain(interceptors=interceptors), TOPIC_ID),
        "orders",
        5,
        target=Target("to", 3, LIMIT),
    )
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    return list(job.process(batch, counts))


def stored(*values, codec="none"):
    records = [Record(NOW + 3 * n, b"k%d" % n, value, HEADERS) for n, value in enumerate(values)]
    return encode_stored(records, attributes=CODECS[codec], base_offset=20)


@pytest.mark.parametrize("codec", CODECS)
def test_only_changes_of_interceptors_differ(codec):
    counts = RecordCounts()
    before = stored(b"a secret", b"b", None, b"no secret", codec=codec)
    (written,) = redact(before, counts)
    assert (written.topic, written.partition, written.source.offset) == ("to", 2, 20)
    after = rows_of(written.batch)
    assert [row.value for row in after] == [b"a ******", b"b", None, b"no ******"]
    for old, new in zip(rows_of(before), after, strict=True):
        assert (new.timestamp, new.key, new.headers) == (old.timestamp, old.key, old.headers)
        assert new.codec == codec
    assert counts.outcomes == {"accepted": 4}


def test_with_log_append_time_records_have_the_timestamps_of_the_source():
    records = [Record(NOW, b"k", value, HEADERS) for value in (b"a secret", b"b")]
    (written,) = redact(encode_stored(records, attributes=8, max_timestamp=NOW + 9), RecordCounts())
    assert [(row.timestamp, row.value) for row in rows_of(written.batch)] == [
        (NOW + 9, b"a ******"),
        (NOW + 9, b"b"),
    ]


def test_a_batch_without_changes_keeps_its_bytes():
    before = stored(b"a", b"b", codec="zstd")
    (written,) = redact(before, RecordCounts())
    assert written.batch == before


def test_dropped_and_failed_records_are_left_out_and_counted():
    counts = RecordCounts()
    (written,) = redact(stored(b"drop", b"x", b"fail with secret"), counts)
    assert [row.value for row in rows_of(written.batch)] == [b"x"]
    assert counts.outcomes == {"accepted": 1, "dropped": 1, "failed": 1}
    assert redact(stored(b"drop", b"fail"), RecordCounts()) == []


def test_without_interceptors_everything_is_copied():
    before = stored(b"a secret")
    assert [outgoing.batch for outgoing in redact(before, RecordCounts(), interceptors=())] == [
        before
    ]
    job = Redact(
        BatchJudge(chain(validators=[NoBad]), TOPIC_ID), "orders", 0, target=Target("to", 1, LIMIT)
    )
    counts = RecordCounts()
    assert (
        list(job.process(read_stored_batch(stored(b"bad"), max_decompressed_bytes=99), counts))
        == []
    )
    assert counts.outcomes == {"accepted": 0, "refused": 1}
