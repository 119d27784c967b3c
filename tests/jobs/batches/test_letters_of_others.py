"""Redrive of dead letters that Connect, Spring, Streams and share groups have written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.jobs.batches.originals import Original
from penstock.jobs.report.counts import RecordCounts
from penstock.policy import BrokerRecordValidator, Header, Record
from tests.jobs.batches.letters import LATER, OWN, WRITERS, connect, share_group, spring
from tests.jobs.batches.redriving import letter, partition_of, redrive
from tests.kafka.records.encoding import encode_stored

pytestmark = pytest.mark.usefixtures("reading")
NOW = 1_700_000_000_000


class Nothing(BrokerRecordValidator):
    """Refuses nothing."""

    def validate_record(self, topic_partition, key, value, headers):
        return None


@pytest.mark.parametrize("writer", WRITERS)
def test_a_letter_of_others_returns_to_where_it_was(writer):
    written = writer("orders", 3, 9, NOW, b"k", b"fine")
    (row,) = redrive(encode_stored([written]))["orders"]
    assert (row.partition, row.timestamp, row.key, row.value) == (3, NOW, b"k", b"fine")
    own = [header for header in written.headers if header.key == "own"]
    assert row.headers == [
        *own,
        ("__penstock.replays", b"1"),
        ("__penstock.timestamp", b"%d" % NOW),
    ]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_letter_of_others_that_is_refused_waits_with_its_place(writer):
    written = writer("orders", 3, 9, NOW, b"k", b"badly")
    (row,) = redrive(encode_stored([written]))["dead"]
    own = [header for header in written.headers if header.key == "own"]
    assert row.headers[: len(own) + 3] == [
        *own,
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"9"),
    ]
    assert dict(row.headers)["__penstock.timestamp"] == b"%d" % NOW
    again = Record(LATER, row.key, b"fine", tuple(Header(*header) for header in row.headers))
    (back,) = redrive(encode_stored([again]))["orders"]
    assert (back.partition, back.timestamp, back.value) == (3, NOW, b"fine")
    assert [header for header in back.headers if header[0] == "own"] == own


def test_only_letters_of_the_topic_are_judged():
    """The others stay: they are neither written again nor counted as attempts."""
    counts = RecordCounts()
    stored = encode_stored([
        letter(b"badly"),
        connect("payments", 0, 1, NOW, b"k", b"badly"),
        spring("payments", 0, 2, NOW, b"k", b"fine"),
        share_group("payments", 0, 3),
        Record(NOW, b"k", b"no letter"),
        connect("orders", 1, 1, NOW, b"k", b"fine"),
    ])  # fmt: skip
    found = redrive(stored, counts=counts)
    assert [row.value for row in found["orders"]] == [b"fine"]
    assert [row.value for row in found["dead"]] == [b"badly"]
    assert counts.outcomes == {"again": 1, "returned": 1}
    others = redrive(stored, topics=("pay*",))
    assert [row.value for row in others["orders"]] == [b"fine"]
    assert sorted(filter(None, (row.value for row in others["dead"]))) == [b"badly"]


def test_a_letter_without_a_partition_returns_to_that_of_its_key():
    topic = (Header("__connect.errors.topic", b"orders"),)
    keys = [b"a", b"b", b"", b"a much longer key", None, None]
    letters = [Record(NOW, key, b"%d" % n, topic) for n, key in enumerate(keys)]
    rows = redrive(encode_stored(letters, base_offset=70))["orders"]
    places = {int(row.value): row.partition for row in rows}
    for number, key in enumerate(keys):
        assert places[number] == ((70 + number) % 4 if key is None else partition_of(key, 4))


class Stored:
    """The records of a topic."""

    def __init__(self, records):
        self.records = records
        self.calls = []

    def __call__(self, topic, partition, offsets):
        self.calls.append((topic, partition, tuple(offsets)))
        found = ((offset, self.records.get((topic, partition, offset))) for offset in offsets)
        return {offset: record for offset, record in found if record is not None}


def test_the_record_of_a_share_groups_letter_is_read_where_it_is():
    stored = Stored({
        ("orders", 1, 9): Original(NOW, b"k", b"fine", OWN),
        ("orders", 1, 12): Original(NOW + 5, None, b"badly", OWN),
        ("orders", 3, 4): Original(NOW, b"k", None, (Header("__penstock.replays", b"2"),)),
    })  # fmt: skip
    letters = [
        share_group("orders", 1, 12),
        share_group("orders", 1, 9, b"k", b"fine"),
        share_group("orders", 3, 4),
    ]
    found = redrive(encode_stored(letters), originals=stored)
    assert sorted(stored.calls) == [("orders", 1, (9, 12)), ("orders", 3, (4,))]
    assert [(row.partition, row.timestamp, row.key, row.value) for row in found["orders"]] == [
        (1, NOW, b"k", b"fine"),
        (3, NOW, b"k", None),
    ]
    times = ("__penstock.timestamp", b"%d" % NOW)
    assert found["orders"][0].headers == [*OWN, ("__penstock.replays", b"1"), times]
    assert found["orders"][1].headers == [("__penstock.replays", b"3"), times]
    (row,) = found["dead"]
    assert (row.key, row.value, row.headers[:2]) == (None, b"badly", list(OWN))
    headers = dict(row.headers)
    assert "__dlq.errors.group" not in headers  # the letter has the record now
    assert headers["__penstock.timestamp"] == b"%d" % (NOW + 5)


def test_another_record_at_the_offset_of_a_copy_does_not_return():
    """The topic was created again since."""
    stored = Stored({("orders", 1, 9): Original(NOW, b"k", b"another", OWN)})
    for key, value in [(b"k", b"fine"), (None, b"another"), (b"k", None), (b"", None)]:
        letters = [share_group("orders", 1, 9, key, value)]
        (row,) = redrive(encode_stored(letters), policies=[Nothing], originals=stored)["orders"]
        assert (row.key, row.value, row.partition) == (key, value, 1)


def test_a_share_groups_letter_whose_record_is_gone():
    counts = RecordCounts()
    letters = [share_group("orders", 1, 9), share_group("orders", 1, 10, b"k", b"fine")]
    found = redrive(encode_stored(letters), counts=counts, originals=Stored({}))
    assert [row.value for row in found["orders"]] == [b"fine"]
    (row,) = found["dead"]
    headers = dict(row.headers)
    assert headers["__dlq.errors.group"] == b"readers"
    assert "no longer stored" in headers["__dlq.errors.message"].decode()
    assert counts.outcomes == {"again": 1, "returned": 1}
    # It is a letter without a record still, also after five attempts.
    again = Record(LATER, None, None, tuple(Header(*header) for header in row.headers))
    found = redrive(encode_stored([again]), originals=Stored({}), most=2)
    assert [dict(row.headers)["__dlq.errors.group"] for row in found["parked"]] == [b"readers"]


# Hypothesis also draws what it finds in code: the interceptor of redriving handles these itself.
OF_REPAIR = (b"drop", b"bad ")
BYTES = st.one_of(
    st.none(), st.binary(max_size=8).filter(lambda data: not data.startswith(OF_REPAIR))
)
PLACES = st.tuples(
    st.sampled_from(["orders", "payments", "orders-retry-0"]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
)


@pytest.mark.thorough
@settings(max_examples=1000, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([*WRITERS, share_group]), PLACES, BYTES, BYTES),
                min_size=1, max_size=4))  # fmt: skip
def test_letters_of_five_producers(written):
    """What returns is what was there before a producer made a letter of it."""
    stored, letters, expected = {}, [], []
    for number, (writer, (topic, partition, offset, timestamp), key, value) in enumerate(written):
        own = (Header("number", b"%d" % number),)
        if writer is share_group:
            letters.append(share_group(topic, partition, offset))
            known = stored.get((topic, partition, offset))
            record = known or Original(timestamp, key, value, own)
            stored[topic, partition, offset] = record
        else:
            record = Original(timestamp, key, value, own)
            letters.append(writer(topic, partition, offset, *record))
        if topic == "orders":
            expected.append((partition % 4, *record[:3], tuple(map(tuple, record.headers))))
    found = redrive(encode_stored(letters), policies=[Nothing], originals=Stored(stored))
    rows = [(row.partition, row.timestamp, row.key, row.value,
             tuple(header for header in row.headers if header[0] == "number"))
            for row in found["orders"]]  # fmt: skip
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    assert found["dead"] == found["parked"] == []
