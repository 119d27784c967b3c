"""Dead letters that the target's broker refuses wait, and the others of their batch return once."""

import random

import pytest

from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.letter_topics import LetterTopics
from penstock.jobs.batches.refused_letters import RefusedLetters
from penstock.jobs.batches.returning_letters import Redrive
from penstock.jobs.batches.targets import Target
from penstock.jobs.batches.task import RangeTask, TaskEnding, TaskLimits, run
from penstock.jobs.report.counts import RecordCounts
from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.client.protocol.write_errors import BatchRefusal, RefusedBatchError
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.memory import LIMIT, MemoryCluster
from tests.jobs.batches.policies import NoBad
from tests.kafka.records.encoding import encode_stored

pytestmark = pytest.mark.usefixtures("reading")
NOW = 1_700_000_000_000
KINDS = {b"large": 10, b"future": 32, b"keyless": 87}


def letter(value, replays=0):
    headers = (
        Header("__dlq.errors.topic", b"orders"),
        Header("__dlq.errors.partition", b"0"),
        Header("__dlq.id", value),
        Header("__penstock.timestamp", b"%d" % NOW),
        Header("__penstock.replays", b"%d" % replays),
    )
    return Record(NOW + 9, b"k", value, headers)


def letters_of(cluster, seed):
    """Write dead letters; return their values."""
    chance, values = random.Random(seed), []
    for _ in range(30):
        some = []
        for _ in range(chance.choice([1, 3, 40])):
            kind = chance.choice([*KINDS, b"bad"]) if chance.random() < 0.1 else b"fine"
            some.append(b"%s %d" % (kind, len(values) + len(some)))
        cluster.store("dead", encode_stored(list(map(letter, some))))
        values += some
    return values


def redrive_job(*, most=5, size=LIMIT):
    return Redrive(
        BatchJudge(chain(validators=[NoBad]), TOPIC_ID), "dead", 0,
        target=Target("orders", 1, size), again=Target("dead", 1, LIMIT),
        parked=Target("parked", 1, LIMIT), replays_max=most, topics=LetterTopics(("orders",)),
        originals=lambda topic, partition, offsets: {},
    )  # fmt: skip


def redrive(cluster, *, most=5, size=LIMIT, **more):
    job = redrive_job(most=most, size=size)
    return run(RangeTask(cluster.range("dead"), cluster.read, cluster.open, "run", **more), job)


def refusing(*, names, chance):
    """Refuse batches as a broker does, for the first kind of record in them."""

    def refuse(topic, rows):
        if topic != "orders":
            return None
        for kind, code in KINDS.items():
            found = [at for at, row in enumerate(rows) if row.value.startswith(kind)]
            if found:
                is_named = names and kind != b"large" and chance.random() < 0.8
                return code, tuple(found) if is_named else ()
        return None

    return refuse


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize(
    "limits", [TaskLimits(), TaskLimits(chunk_records=50), TaskLimits(chunk_records=1)]
)
@pytest.mark.parametrize("seed", range(5))
def test_refused_letters_wait_with_the_reason_and_the_others_return_once(seed, limits, names):
    cluster = MemoryCluster()
    values = letters_of(cluster, seed)
    cluster.refuse = refusing(names=names, chance=random.Random(seed))
    before = cluster.end("dead")
    result = redrive(cluster, limits=limits)

    assert result.ending is TaskEnding.DONE
    fine = [value for value in values if value.startswith(b"fine")]
    assert [row.value for row in cluster.rows("orders")] == fine
    waiting = [row for row in cluster.rows("dead") if row.offset >= before]
    assert [row.value for row in waiting] == [value for value in values if value not in set(fine)]
    codes = {**KINDS, b"bad": 87}
    for row in waiting:
        kind, headers = row.value.split()[0], dict(row.headers)
        assert headers["__penstock.code"] == b"%d" % codes[kind]
        assert headers["__penstock.policy"] == (b"NoBad" if kind == b"bad" else b"broker")
        assert headers["__penstock.replays"] == b"1"
        assert headers["__dlq.id"] == row.value + b"/1"
    counts = result.progress.counts
    bad = sum(value.startswith(b"bad") for value in values)
    assert +counts.outcomes == {
        "returned": len(fine), "again": bad, "refused": len(values) - len(fine) - bad,
    }  # fmt: skip
    assert counts.reasons.total() == len(values) - len(fine)
    messages = {name.message for name, _ in counts.reasons.items() if name.policy == "broker"}
    assert len(messages) == len(KINDS)
    assert all(message.endswith(")") or "topic orders: " in message for message in messages)


def test_a_letter_is_parked_after_the_maximum_of_attempts():
    cluster = MemoryCluster()
    some = [letter(b"future 1", 3), letter(b"future 2", 4), letter(b"fine")]
    cluster.store("dead", encode_stored(some))
    cluster.refuse = refusing(names=True, chance=random.Random(1))
    counts = redrive(cluster).progress.counts
    assert counts.outcomes == {"refused": 1, "parked": 1, "returned": 1}
    (parked,) = cluster.rows("parked")
    assert dict(parked.headers)["__penstock.code"] == b"32"


def test_a_letter_that_is_too_large_for_the_target_is_not_sent():
    cluster = MemoryCluster()
    some = [letter(b"fine 1"), letter(b"x" * 2000), letter(b"fine 2")]
    cluster.store("dead", encode_stored(some))
    counts = redrive(cluster, size=1000).progress.counts
    assert counts.outcomes == {"refused": 1, "returned": 2}
    assert [row.value for row in cluster.rows("orders")] == [b"fine 1", b"fine 2"]
    ((reason, _),) = counts.reasons.items()
    assert (reason.policy, reason.code) == ("broker", 10)
    assert reason.message == (
        "MESSAGE_TOO_LARGE (10): topic orders: larger than the topic's max.message.bytes"
    )


def test_a_dead_letter_topic_that_refuses_ends_the_task():
    cluster = MemoryCluster()
    cluster.store("dead", encode_stored([letter(b"bad")]))
    cluster.refuse = lambda topic, rows: (10, ()) if topic == "dead" else None
    with pytest.raises(RefusedBatchError):
        redrive(cluster)


@pytest.mark.parametrize("code", [76, 43])
def test_a_target_that_refuses_every_record_ends_the_task(code):
    cluster = MemoryCluster()
    cluster.store("dead", encode_stored([letter(b"fine")]))
    cluster.refuse = lambda topic, rows: (code, ())
    with pytest.raises(RefusedBatchError):
        redrive(cluster)


def test_each_refusal_costs_a_batch_and_not_a_chunk():
    cluster = MemoryCluster()
    for number in range(200):
        kind = b"future" if number % 20 == 0 else b"fine"
        cluster.store("dead", encode_stored([letter(b"%s %d" % (kind, number))]))
    cluster.refuse = refusing(names=True, chance=random.Random(1))
    written = []
    cluster.disturb = written.append
    assert redrive(cluster).progress.counts.outcomes == {"returned": 190, "refused": 10}
    assert written.count("write") < 3 * 200


@pytest.mark.parametrize(
    "refusal",
    [
        None,
        BatchRefusal("other", BatchSource("dead", 0, 5), 32),
        BatchRefusal("orders", BatchSource("dead", 0, 6), 32),
        BatchRefusal("orders", BatchSource("dead", 0, 5), 76),
    ],
)
def test_other_errors_mark_no_letter_as_refused(refusal):
    letters = RefusedLetters("orders")
    letters.send([5, 7, 8])
    assert not letters.learn(RefusedBatchError("text", refusal))
    assert not letters


def test_sent_batches_are_forgotten_only_after_their_commit():
    stored = [
        encode_stored([letter(b"fine %d" % n) for n in range(first, first + 3)], base_offset=first)
        for first in (0, 3)
    ]
    first, second = (read_stored_batch(record, max_decompressed_bytes=LIMIT) for record in stored)
    at_0, at_3 = (
        RefusedBatchError("", BatchRefusal("orders", BatchSource("dead", 0, offset), 10))
        for offset in (0, 3)
    )
    job = redrive_job()
    list(job.process(first, RecordCounts()))
    list(job.rest())
    # A broker may still refuse it: the commit waits for all responses.
    assert job.refuse(at_0)
    list(job.process(second, RecordCounts()))
    assert not job.refuse(at_0)
    assert job.refuse(at_3)


def test_committed_batches_are_forgotten():
    letters = RefusedLetters("orders")
    letters.send([5, 7, 8, 9])
    assert letters.learn(
        RefusedBatchError("", BatchRefusal("orders", BatchSource("d", 0, 5), 32, (1, 3)))
    )
    letters.forget_before(8)
    assert letters.verdict(7) is None
    assert letters.verdict(9).code == 32
    assert letters.learn(RefusedBatchError("", BatchRefusal("orders", BatchSource("d", 0, 5), 10)))
    assert list(letters.halves([0, 1, 2, 3], [5, 7, 8, 9])) == [[0, 1], [2, 3]]
    letters.forget_before(9)
    assert list(letters.halves([0, 1, 2, 3], [5, 7, 8, 9])) == [[0, 1, 2, 3]]
    letters.forget_sent()
    assert not letters.learn(
        RefusedBatchError("", BatchRefusal("orders", BatchSource("d", 0, 5), 10))
    )
