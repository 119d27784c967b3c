"""Redrive: records that return, wait, or are parked; it reverses split."""

import random

import pytest

from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.batches.returning_letters import Redrive
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.records.header import HEADER
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import BrokerRecordValidator, Header, Record
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.memory import LIMIT, MemoryCluster, content, rows_of
from tests.jobs.batches.policies import NoBad, Repair
from tests.jobs.batches.redriving import LATER, NONE, NOW, letter, partition_of, redrive
from tests.kafka.records.encoding import CODECS, encode_stored, zigzag

pytestmark = pytest.mark.usefixtures("reading")
OWN = (Header("own", b"1"), Header("own", None))


@pytest.mark.parametrize("codec", CODECS)
def test_accepted_records_return_as_they_were_sent(codec):
    counts = RecordCounts()
    letters = [
        letter(b"bad 1", partition=1, timestamp=NOW),
        letter(b"bad 2", partition=6, timestamp=NOW + 50),
        letter(b"bad 3", partition=1, timestamp=NOW - 7, replays=2),
        letter(b"bad 4", partition=5, timestamp=-1),
    ]
    found = redrive(encode_stored(letters, attributes=CODECS[codec]), counts=counts)
    assert found["dead"] == found["parked"] == []
    assert [(row.partition, row.timestamp, row.value) for row in found["orders"]] == [
        (1, NOW, b"good 1"),
        (1, NOW - 7, b"good 3"),
        (1, -1, b"good 4"),
        (2, NOW + 50, b"good 2"),
    ]
    assert found["orders"][1].headers == [
        ("own", b"1"),
        ("__penstock.replays", b"3"),
        ("__penstock.timestamp", b"%d" % (NOW - 7)),
    ]
    assert {row.codec for row in found["orders"]} == {codec}
    assert counts.outcomes == {"returned": 4}


def test_records_refused_again_wait_with_their_place_and_the_new_reason():
    counts = RecordCounts()
    found = redrive(encode_stored([letter(b"badly", replays=1)]), counts=counts)
    (row,) = found["dead"]
    assert (row.partition, row.timestamp) == (2, LATER + 60_000)
    assert (row.key, row.value) == (b"k", b"badly")
    assert row.headers == [
        ("own", b"1"),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"1"),
        ("__dlq.errors.offset", b"9"),
        ("__dlq.errors.message", b"bad is not good"),
        ("__penstock.outcome", b"refused"),
        ("__penstock.policy", b"NoBad"),
        ("__penstock.code", b"87"),
        ("__penstock.message", b"bad is not good"),
        ("__penstock.timestamp", b"%d" % NOW),
        ("__penstock.replays", b"2"),
    ]
    assert counts.outcomes == {"again": 1}
    assert [name.topic for name, _ in counts.reasons.items()] == ["orders"]


def test_a_letter_is_parked_after_the_maximum_of_attempts():
    letters = [letter(b"badly", replays=3), letter(b"badly", replays=4), letter(b"bad 1", replays=5),
               letter(b"bad 2", replays=4), letter(b"drop", replays=9)]  # fmt: skip
    counts = RecordCounts()
    found = redrive(encode_stored(letters), counts=counts)
    assert [dict(row.headers)["__penstock.replays"] for row in found["dead"]] == [b"4"]
    assert [row.value for row in found["orders"]] == [b"good 2"]
    parked = found["parked"]
    assert [row.partition for row in parked] == [0, 0]
    # One that was accepted, but had returned too often: with its bytes, and without a policy.
    assert [row.value for row in parked] == [b"badly", b"bad 1"]
    assert dict(parked[1].headers)["__penstock.outcome"] == b"accepted"
    assert dict(parked[1].headers)["__penstock.policy"] is None
    assert counts.outcomes == {"again": 1, "parked": 2, "returned": 1, "dropped": 1}


def test_policies_see_a_record_as_it_would_return():
    seen = []

    class See(BrokerRecordValidator):
        def validate_record(self, topic_partition, key, value, headers):
            seen.append((topic_partition.partition, value, tuple(headers)))

    letters = [letter(b"bad 1", partition=3), letter(b"x", partition=3), letter(b"y", partition=0)]
    redrive(encode_stored(letters), policies=[See])
    own = (Header("own", b"1"),)
    assert seen == [(3, b"good 1", own), (3, b"x", own), (0, b"y", own)]


def test_missing_places_in_headers_are_not_made_up():
    broken = (Header("__dlq.errors.topic", b"orders"),
              Header("__dlq.errors.partition", b"-3"), Header("__dlq.errors.offset", b"many"),
              Header("__penstock.timestamp", None), Header("__penstock.replays", b"99999999999"))  # fmt: skip
    records = [Record(LATER, b"k", b"x", broken), Record(LATER, b"k", b"badly", broken)]
    found = redrive(encode_stored(records, base_offset=70))
    (returned,), (again,) = found["orders"], found["dead"]
    assert (returned.partition, returned.timestamp) == (partition_of(b"k", 4), LATER)
    assert dict(again.headers)["__dlq.errors.topic"] == b"orders"
    assert dict(again.headers)["__dlq.errors.partition"] is None
    assert dict(again.headers)["__dlq.errors.offset"] is None
    assert dict(again.headers)["__penstock.replays"] == b"1"


def test_header_keys_that_are_not_utf_8_return_with_their_bytes():
    """These records are in batches with records of the same timestamp; others are together."""

    def body(delta, key, timestamp):
        pairs = ((key, b"1"), (b"__dlq.errors.topic", b"orders"),
                 (b"__penstock.timestamp", b"%d" % timestamp))  # fmt: skip
        headers = b"".join(zigzag(len(k)) + k + zigzag(len(v)) + v for k, v in pairs)
        inside = b"\0" + zigzag(0) + zigzag(delta) + b"\x02k\x02v" + zigzag(3) + headers
        return zigzag(len(inside)) + inside

    odd = [(b"\xff", NOW), (b"\xfe", NOW), (b"\xfd", NOW + 9), (b"fine", NOW + 1), (b"f", NOW)]
    data = b"".join(body(n, *letter) for n, letter in enumerate(odd))
    stored = encode_stored([Record(LATER, b"k", b"v")] * len(odd), body=data)
    job = Redrive(
        BatchJudge(chain(validators=[NoBad]), TOPIC_ID), "dead", 0, target=Target("orders", 1, LIMIT),
        again=Target("dead", 1, LIMIT), parked=Target("p", 1, LIMIT), replays_max=5,
        topics=LetterTopics(("orders",)), originals=NONE,
    )  # fmt: skip
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    written = [outgoing.batch for outgoing in job.process(batch, RecordCounts())]
    assert [len(rows_of(item)) for item in written] == [2, 1, 2]
    assert [row.timestamp for item in written for row in rows_of(item)] == [at for _, at in odd]
    for (key, _), place in zip(odd, (0, 0, 1, 2, 2), strict=True):
        assert b"%c%b\x021" % (len(key) << 1, key) in written[place][HEADER.size :]


def test_too_large_batches_are_split():
    letters = [letter(b"bad %d" % n, timestamp=NOW + n, partition=0) for n in range(60)]
    letters += [letter(b"badly %d" % n) for n in range(60)]
    found = redrive(encode_stored(letters), size=1500)
    assert [row.value for row in found["orders"]] == [b"good %d" % n for n in range(60)]
    assert [row.value for row in found["dead"]] == [b"badly %d" % n for n in range(60)]


def test_redrive_after_split_returns_every_record():
    """Random records: after a repair all have returned, each unchanged."""
    chance = random.Random(15)
    cluster = MemoryCluster()
    for _ in range(30):
        records = [
            Record(
                NOW + chance.randrange(-(10**6), 10**6),
                chance.choice([None, b"", b"key"]),
                chance.choice([None, b"", b"bad 1", b"fine", b"bad " + b"x" * 300]),
                chance.choice([(), OWN]),
            )
            for _ in range(chance.randrange(1, 30))
        ]
        cluster.store(
            "source", encode_stored(records, attributes=chance.choice(list(CODECS.values())))
        )
    split = Split(
        BatchJudge(chain(validators=[NoBad]), TOPIC_ID), "source", 0,
        accepted=Target("all", 1, LIMIT), rejected=Target("dead", 1, LIMIT),
    )  # fmt: skip
    back = Redrive(
        BatchJudge(chain(interceptors=[Repair], validators=[NoBad]), TOPIC_ID), "dead", 0,
        target=Target("all", 1, LIMIT), again=Target("dead", 1, LIMIT),
        parked=Target("parked", 1, LIMIT), replays_max=5, topics=LetterTopics(("source",)),
        originals=NONE,
    )  # fmt: skip
    for name, job in (("source", split), ("dead", back)):
        for data in list(cluster.logs[name, 0]):
            batch = read_stored_batch(data, max_decompressed_bytes=LIMIT)
            for header in (*job.process(batch, RecordCounts()), *job.rest()):
                cluster.store(header.topic, header.batch, header.partition)

    def as_repaired(row, headers):
        value = row.value
        if value is not None and value.startswith(b"bad "):
            value = b"good " + value[4:]
        return (row.timestamp, row.key, value, headers)

    def own(row):
        return [header for header in row.headers if not header[0].startswith("__penstock.")]

    def order(letter):
        return repr(letter)

    before = [as_repaired(row, row.headers) for row in cluster.rows("source")]
    after = [as_repaired(row, own(row)) for row in cluster.rows("all")]
    assert sorted(before, key=order) == sorted(after, key=order)
    assert len(content(cluster.rows("dead"))) > 50


def identified(value, letter_id, **options):
    return letter(value, more=(Header("__dlq.id", letter_id),), **options)


def redrive_job():
    policies = chain(interceptors=[Repair], validators=[NoBad])
    return Redrive(
        BatchJudge(policies, TOPIC_ID), "dead", 2,
        target=Target("orders", 4, LIMIT), again=Target("dead", 3, LIMIT),
        parked=Target("parked", 2, LIMIT), replays_max=5, topics=LetterTopics(("orders",)),
        originals=NONE, clock=lambda: LATER / 1000 + 60,
    )  # fmt: skip


def test_a_repeated_letter_is_returned_once():
    job, counts = redrive_job(), RecordCounts()
    first = [identified(b"good 1", b"a"), identified(b"good 2", b"b"), letter(b"good 3")]
    again = [identified(b"good 2", b"b"), letter(b"good 3"), identified(b"badly", b"c")]
    rows = []
    for offset, letters in ((0, first), (3, again), (6, [identified(b"good 1", b"a")])):
        stored = encode_stored(letters, base_offset=offset)
        batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
        for topic, partition, data, _ in job.process(batch, counts):
            rows += [
                (topic, row.value, dict(row.headers)) for row in rows_of(data, topic, partition)
            ]
    returned = [value for topic, value, _ in rows if topic == "orders"]
    assert sorted(returned) == [b"good 1", b"good 2", b"good 3", b"good 3"]
    assert counts.outcomes["double"] == 2
    assert all(not key.startswith("__dlq") for topic, _, headers in rows if topic == "orders"
               for key in headers)  # fmt: skip


def test_a_batch_that_is_read_again_is_not_its_own_duplicate():
    job, counts = redrive_job(), RecordCounts()
    stored = encode_stored([identified(b"good 1", b"a")], base_offset=7)
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    for _ in range(2):
        assert len(list(job.process(batch, counts))) == 1
    before = encode_stored([identified(b"good 1", b"a")], base_offset=3)
    job = redrive_job()
    job.recall(read_stored_batch(before, max_decompressed_bytes=LIMIT))
    assert list(job.process(batch, counts)) == []


def test_a_letter_that_waits_again_has_another_id():
    job = redrive_job()
    stored = encode_stored([identified(b"badly", b"a", replays=1)])
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    ((topic, partition, data, _),) = job.process(batch, RecordCounts())
    (row,) = rows_of(data, topic, partition)
    assert (topic, dict(row.headers)["__dlq.id"]) == ("dead", b"a/2")
