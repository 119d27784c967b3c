"""Split: bytes of accepted batches, dead letters with their headers, batches of any kind."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.chain import Chain, unusable
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.engine.chains import TOPIC_ID, chain, instances
from tests.jobs.batches.memory import LIMIT, content, rows_of
from tests.jobs.batches.policies import Mask, NoBad, Repair
from tests.kafka.records.encoding import CODECS, encode_stored

pytestmark = pytest.mark.usefixtures("reading", "nothing_is_buffered")
NOW = 1_700_000_000_000
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
OWN = (Header("own", b"1"), Header("none", None))
MIXED = (b"one", b"bad 1", None, b"odd 1", b"two", b"bad 2")
ACCEPTED, REJECTED = Target("clean", 2, LIMIT), Target("dead", 3, LIMIT)


def records(*values, headers=OWN):
    return [Record(NOW + n * 7, b"k%d" % n, value, headers) for n, value in enumerate(values)]


def split(stored, *, policies=None, counts=None, between=None, **options):
    """Return the batches written for a batch of partition 4, by topic: (partition, batch)."""
    policies = chain(validators=[NoBad]) if policies is None else policies
    settings = {"accepted": ACCEPTED, "rejected": REJECTED, "clock": lambda: 1_800_000_000.0}
    job = Split(BatchJudge(policies, TOPIC_ID), "orders", 4, **{**settings, **options})
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    if between is not None:
        batch = batch.between(*between)
    written = {"clean": [], "dead": []}
    for topic, partition, data, source in (
        *job.process(batch, counts or RecordCounts()),
        *job.rest(),
    ):
        assert (source.topic, source.partition) == ("orders", 4)
        written[topic].append((partition, data, source.offset))
    return written


def rows(batches):
    return [row for _, data, _ in batches for row in rows_of(data)]


@pytest.mark.parametrize("codec", CODECS)
def test_an_accepted_batch_keeps_its_bytes(codec):
    stored = encode_stored(
        records(b"a", None, b"b" * 500), attributes=CODECS[codec] | TRANSACTIONAL, base_offset=90
    )
    counts = RecordCounts()
    written = split(stored, counts=counts)
    assert written == {"clean": [(0, stored, 90)], "dead": []}
    assert counts.outcomes == {"accepted": 3}
    assert list(counts.reasons.items()) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_mixed_batch_is_split(codec):
    before = records(*MIXED)
    stored = encode_stored(before, attributes=CODECS[codec], base_offset=50)
    counts = RecordCounts()
    written = split(stored, counts=counts)
    assert [(partition, offset) for partition, _, offset in written["clean"]] == [(0, 50)]
    assert [(partition, offset) for partition, _, offset in written["dead"]] == [(1, 51)]
    original = rows_of(stored)
    accepted, dead = rows(written["clean"]), rows(written["dead"])
    assert content(accepted) == content([original[n] for n in (0, 2, 4)])
    assert {row.codec for row in (*accepted, *dead)} == {codec}
    assert [(row.timestamp, row.key, row.value) for row in dead] == [
        (1_800_000_000_000, original[n].key, original[n].value) for n in (1, 3, 5)
    ]
    assert dead[0].headers == [
        ("own", b"1"),
        ("none", None),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"4"),
        ("__dlq.errors.offset", b"51"),
        ("__dlq.errors.message", b"bad is not good"),
        ("__penstock.outcome", b"refused"),
        ("__penstock.policy", b"NoBad"),
        ("__penstock.code", b"87"),
        ("__penstock.message", b"bad is not good"),
        ("__penstock.timestamp", b"%d" % (NOW + 7)),
        ("__penstock.replays", b"0"),
    ]
    failed = dict(dead[1].headers)
    assert failed["__penstock.outcome"] == b"failed"
    assert failed["__penstock.code"] == b"-1"
    assert failed["__dlq.errors.offset"] == b"53"
    assert counts.outcomes == {"accepted": 3, "refused": 2, "failed": 1}
    assert sorted((reason.outcome, count) for reason, count in counts.reasons.items()) == [
        ("failed", 1),
        ("refused", 2),
    ]


def test_a_batch_that_is_refused_as_a_whole_becomes_dead_letters():
    written = split(encode_stored(records(b"bad", b"bad")))
    assert written["clean"] == []
    assert [row.value for row in rows(written["dead"])] == [b"bad", b"bad"]


def test_gaps_of_compaction_are_closed_and_offsets_are_right():
    stored = encode_stored(
        records(b"one", b"bad", b"two"), [2, 5, 9], last_offset_delta=11, base_offset=100
    )
    written = split(stored)
    assert [row.value for row in rows(written["clean"])] == [b"one", b"two"]
    assert [row.offset for row in rows(written["clean"])] == [0, 1]
    assert dict(rows(written["dead"])[0].headers)["__dlq.errors.offset"] == b"105"
    accepted = split(encode_stored(records(b"one", b"two"), [2, 5]))["clean"]
    assert content(rows(accepted)) == content(rows_of(encode_stored(records(b"one", b"two"))))


def test_a_part_of_a_batch_is_split():
    stored = encode_stored(records(b"0", b"bad", b"2", b"3"), base_offset=10)
    written = split(stored, between=(11, 13))
    assert [row.value for row in rows(written["clean"])] == [b"2"]
    assert [row.value for row in rows(written["dead"])] == [b"bad"]
    assert written["clean"][0][2] == 12


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("values", [(b"one", b"two"), (b"one", b"bad", b"two")])
def test_with_log_append_time_records_have_the_timestamps_of_the_source(values, codec):
    attributes = LOG_APPEND_TIME | CODECS[codec]
    stored = encode_stored(records(*values), attributes=attributes, max_timestamp=NOW + 500)
    written = split(stored)
    clean = rows(written["clean"])
    assert [(row.timestamp, row.value) for row in clean] == [
        (NOW + 500, b"one"),
        (NOW + 500, b"two"),
    ]
    assert {row.codec for row in clean} == {codec}
    ((_, data, _),) = written["clean"]
    assert not read_stored_batch(data, max_decompressed_bytes=LIMIT).is_log_append_time


def test_with_log_append_time_letters_have_the_time_of_the_log():
    stored = encode_stored(
        records(b"one", b"bad"), attributes=LOG_APPEND_TIME, max_timestamp=NOW + 500
    )
    written = split(stored)
    assert dict(rows(written["dead"])[0].headers)["__penstock.timestamp"] == b"%d" % (NOW + 500)


def test_interceptors_change_accepted_records_and_not_dead_letters():
    policies = chain(interceptors=[Mask], validators=[NoBad])
    stored = encode_stored(records(b"a secret", b"b", b"drop", b"bad secret", b"fail secret", None))
    counts = RecordCounts()
    written = split(stored, policies=policies, counts=counts)
    assert [row.value for row in rows(written["clean"])] == [b"a ******", b"b", None]
    assert [row.key for row in rows(written["clean"])] == [b"k0", b"k1", b"k5"]
    assert [row.value for row in rows(written["dead"])] == [b"bad secret", b"fail secret"]
    assert [dict(row.headers)["__dlq.errors.offset"] for row in rows(written["dead"])] == [
        b"3",
        b"4",
    ]
    assert counts.outcomes == {"accepted": 3, "dropped": 1, "refused": 1, "failed": 1}


@pytest.mark.parametrize("mode", ["enforce", "quarantine", "mark"])
def test_if_interceptors_only_observe_policies_judge_the_original_records(mode):
    plan = TopicPlan(
        topic="orders",
        interceptors=("Repair", "Mask"),
        validators=("NoBad",),
        mode="observe",
        policy_modes={"NoBad": mode},
    )
    policies = Chain(plan, instances(interceptors=[Repair, Mask], validators=[NoBad]))
    counts = RecordCounts()
    stored = encode_stored(records(b"bad 1", b"a secret", b"drop", b"b"))
    written = split(stored, policies=policies, counts=counts)
    assert [row.value for row in rows(written["clean"])] == [b"a ******", b"b"]
    assert [row.key for row in rows(written["clean"])] == [b"k1", b"k3"]
    assert [row.value for row in rows(written["dead"])] == [b"bad 1"]
    assert counts.outcomes == {"accepted": 2, "dropped": 1, "refused": 1}


def test_interceptors_that_change_nothing_leave_the_bytes():
    stored = encode_stored(records(b"a", None, b"b"), attributes=CODECS["lz4"])
    assert split(stored, policies=chain(interceptors=[Mask]))["clean"] == [(0, stored, 0)]


def test_a_dead_letter_keeps_its_first_place():
    headers = (
        Header("own", b"1"),
        Header("__dlq.errors.topic", b"first"),
        Header("__dlq.errors.partition", b"7"),
        Header("__dlq.errors.offset", b"4711"),
        Header("__dlq.errors.message", b"old"),
        Header("__penstock.timestamp", b"1600000000000"),
        Header("__penstock.replays", b"2"),
    )
    (dead,) = rows(split(encode_stored(records(b"bad", headers=headers)))["dead"])
    names = [name for name, _ in dead.headers]
    assert len(names) == len(set(names)) == 11
    found = dict(dead.headers)
    assert found["__dlq.errors.topic"] == b"first"
    assert found["__dlq.errors.partition"] == b"7"
    assert found["__dlq.errors.offset"] == b"4711"
    assert found["__dlq.errors.message"] == b"bad is not good"
    assert found["__penstock.timestamp"] == b"1600000000000"
    assert found["__penstock.replays"] == b"2"


def test_a_returned_record_has_its_current_place():
    headers = (Header("__penstock.replays", b"3"), Header("__penstock.timestamp", b"5"))
    (dead,) = rows(split(encode_stored(records(b"bad", headers=headers)))["dead"])
    found = dict(dead.headers)
    assert found["__dlq.errors.topic"] == b"orders"
    assert found["__penstock.timestamp"] == b"%d" % NOW
    assert found["__penstock.replays"] == b"3"


def test_batches_that_are_too_large_for_a_target_are_divided():
    stored = encode_stored(records(*[b"%d" % n + b"x" * 100 for n in range(50)]), base_offset=7)
    small = ACCEPTED._replace(max_message_bytes=1000)
    written = split(stored, accepted=small)["clean"]
    assert all(len(data) <= 1000 for _, data, _ in written)
    assert content(rows(written)) == content(rows_of(stored))
    firsts = [offset for _, _, offset in written]
    assert len(firsts) > 5
    assert firsts == sorted(set(firsts))
    assert firsts[0] == 7


def test_dead_letters_that_are_too_large_are_divided():
    stored = encode_stored(records(*[b"bad %d" % n for n in range(40)]))
    written = split(stored, rejected=REJECTED._replace(max_message_bytes=2000))["dead"]
    assert all(len(data) <= 2000 for _, data, _ in written)
    assert [row.value for row in rows(written)] == [b"bad %d" % n for n in range(40)]
    offsets = [int(dict(row.headers)["__dlq.errors.offset"]) for row in rows(written)]
    assert offsets == list(range(40))


@pytest.mark.parametrize("value", [b"good" + b"x" * 1000, b"bad" + b"x" * 1000])
def test_too_large_a_record_is_an_error_with_its_offset(value):
    stored = encode_stored(records(b"one", value), base_offset=300)
    small = {"accepted": ACCEPTED._replace(max_message_bytes=700),
             "rejected": REJECTED._replace(max_message_bytes=700)}  # fmt: skip
    with pytest.raises(RefusedBatchError) as caught:
        split(stored, **small)
    text = str(caught.value)
    assert "orders, partition 4, offset 301" in text
    assert "max.message.bytes (700): raise it" in text
    assert "xxx" not in text


def test_policies_that_cannot_be_configured_let_nothing_pass():
    verdict = unusable(TopicPlan(topic="orders"), ConfigurationError("no such schema"))
    stored = encode_stored(records(b"one", b"two"))
    written = split(stored, policies=verdict)
    assert written["clean"] == []
    assert {dict(row.headers)["__penstock.outcome"] for row in rows(written["dead"])} == {b"failed"}
