"""Tasks in chunks, interrupted at any moment: no duplicate, no loss, right counts."""

import itertools
import random
from collections import Counter
from functools import partial

import pytest

from penstock.engine.verdict import Outcome, PostponedError
from penstock.jobs.batches import outgoing_records
from penstock.jobs.batches.judge import BatchJudge
from penstock.jobs.batches.split import Split
from penstock.jobs.batches.targets import Target
from penstock.jobs.batches.task import RangeTask, TaskEnding, TaskLimits, run
from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.client.positions import Position
from penstock.kafka.client.protocol.write_errors import (
    AbortedError,
    FencedError,
    RefusedBatchError,
    UnknownOutcomeError,
)
from penstock.policy import Header, Record
from tests.engine.chains import TOPIC_ID, chain
from tests.jobs.batches.fates import fate
from tests.jobs.batches.memory import LIMIT, MemoryCluster, content
from tests.jobs.batches.policies import Later, Mask, NoBad
from tests.kafka.client.stored import damaged, empty, marker
from tests.kafka.records.encoding import CODECS, encode_stored

NOW = 1_700_000_000_000
SMALL = (0, 400, outgoing_records.SMALL_BYTES)
"""Batches of fewer bytes are buffered."""
VALUES = (b"fine", None, b"", b"bad", b"odd", b"drop", b"fail", b"secret", b"x" * 200)


class Killed(BaseException):
    """The process is killed here."""


def split(policies=None):
    policies = policies or chain(interceptors=[Mask], validators=[NoBad])
    return Split(
        BatchJudge(policies, TOPIC_ID), "source", 0,
        accepted=Target("clean", 1, LIMIT), rejected=Target("dead", 1, LIMIT),
    )  # fmt: skip


def task(cluster, **options):
    settings = {
        "offsets": cluster.range("source"), "read": cluster.read, "open_writer": cluster.open,
        "run": "job", "limits": TaskLimits(chunk_records=50), "merges": True,
    }  # fmt: skip
    return RangeTask(**{**settings, **options})


def merging(cluster, seed):
    """Small batches are merged while they are read, or then, or not at all."""
    within = TaskLimits().of_batch if seed % 2 else None
    return {"read": partial(cluster.read, merged_within=within), "merges": seed % 4 > 0}


def filled(chance, batches=40):
    """A source with batches of any kind."""
    cluster = MemoryCluster()
    for _ in range(batches):
        kind = chance.randrange(10)
        base = cluster.end("source")
        if kind == 0:
            cluster.store("source", marker(base, 7, commit=True))
        elif kind == 1:
            cluster.store("source", empty(base, chance.randrange(1, 9)))
        else:
            records = [
                Record(NOW + chance.randrange(9), b"%d" % (base + n), chance.choice(VALUES),
                       chance.choice([(), (Header("own", b"1"),)]))
                for n in range(chance.randrange(1, 30))
            ]  # fmt: skip
            deltas = sorted(chance.sample(range(60), len(records)))
            if chance.random() < 0.7:
                deltas = list(range(len(records)))
            cluster.store(
                "source",
                encode_stored(records, deltas, attributes=chance.choice(list(CODECS.values()))),
            )
    return cluster


def check(cluster, result):
    """Assert that each record is in its topic once, and is counted once."""
    source = cluster.rows("source")
    source = [row for row in source if row.headers or row.key.isdigit()]  # no markers
    accepted = [row for row in source if fate(row) == "accepted"]
    for row in accepted:
        row.value = row.value and row.value.replace(b"secret", b"******")
    assert content(cluster.rows("clean")) == content(accepted)
    rejected = [row for row in source if fate(row) in {"refused", "failed"}]
    dead = cluster.rows("dead")
    assert [(row.key, row.value) for row in dead] == [(row.key, row.value) for row in rejected]
    offsets = [int(dict(row.headers)["__dlq.errors.offset"]) for row in dead]
    assert offsets == [row.offset for row in rejected]
    if result is not None:
        expected = Counter(map(fate, source))
        assert result.ending is TaskEnding.DONE
        assert +result.progress.counts.outcomes == expected
        assert result.progress.counts.reasons.total() == len(source) - len(accepted)
        assert result.progress.offset == cluster.end("source") == cluster.position.offset


def test_a_task_writes_every_record_once():
    cluster = filled(random.Random(1))
    chunks = []
    result = run(task(cluster, on_chunk=chunks.append), split())
    check(cluster, result)
    assert [chunk.offset for chunk in chunks] == sorted({chunk.offset for chunk in chunks})
    assert len(chunks) == cluster.commits > 5
    assert chunks[-1] == result.progress
    assert result.progress.counts_start == 0


def test_a_task_that_was_done_writes_nothing_more():
    cluster = filled(random.Random(2))
    first = run(task(cluster), split())
    commits = cluster.commits
    again = run(task(cluster), split())
    check(cluster, again)
    assert again.progress == first.progress
    assert cluster.commits == commits


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_a_task_that_is_killed_at_any_moment_is_continued(seed, monkeypatch):
    """Uncommitted work is lost with the process; after a commit, only its memory is."""
    monkeypatch.setattr(outgoing_records, "SMALL_BYTES", SMALL[seed % 3])
    chance = random.Random(seed)
    cluster = filled(chance)
    kills = 0

    def disturb(moment):
        nonlocal kills
        if chance.random() < 0.15:
            kills += 1
            raise Killed(moment)

    cluster.disturb = disturb
    result = None
    while result is None:
        try:
            result = run(task(cluster, **merging(cluster, seed)), split())
        except Killed:
            continue
    check(cluster, result)
    assert kills


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(12))
def test_lost_transactions_and_unknown_outcomes_are_retried_at_once(seed, monkeypatch):
    monkeypatch.setattr(outgoing_records, "SMALL_BYTES", SMALL[seed % 3])
    cluster = filled(random.Random(seed))
    seen, moments = Counter(), itertools.count(seed)

    def disturb(moment):
        if next(moments) % 13 == 12:
            seen[moment] += 1
            raise UnknownOutcomeError if moment == "committed" else AbortedError

    cluster.disturb = disturb
    check(cluster, run(task(cluster, **merging(cluster, seed)), split()))
    assert seen


def test_a_task_without_progress_fails():
    cluster = filled(random.Random(3))
    moments = []

    def disturb(moment):
        moments.append(moment)
        raise AbortedError("lost again")

    cluster.disturb = disturb
    with pytest.raises(AbortedError, match="lost again"):
        run(task(cluster), split())
    assert len(moments) == 5
    assert cluster.position is None


def test_two_concurrent_attempts_have_the_effect_of_one():
    """The first attempt is fenced at its next step, and its uncommitted work is lost."""
    cluster = filled(random.Random(4))
    results = []

    def second(moment):
        if cluster.commits == 2:
            cluster.disturb = lambda moment: None
            results.append(run(task(cluster), split()))

    cluster.disturb = second
    first = run(task(cluster), split())
    assert first.ending is TaskEnding.FENCED
    check(cluster, results[0])
    check(cluster, None)
    assert first.progress.offset < results[0].progress.offset


def test_a_task_that_lost_its_transaction_does_not_fence_the_task_that_took_over():
    cluster = filled(random.Random(4))
    results = []

    def second(moment):
        if cluster.commits == 2:
            cluster.disturb = lambda moment: None
            results.append(run(task(cluster), split()))
            raise AbortedError("the transaction is lost")

    cluster.disturb = second
    first = run(task(cluster), split())
    assert first.ending is TaskEnding.FENCED
    check(cluster, results[0])
    assert cluster.epoch == 1


def test_a_final_error_ends_a_task_and_a_later_run_continues():
    cluster = filled(random.Random(5))
    cluster.limits["dead"] = 400
    with pytest.raises(RefusedBatchError):
        run(task(cluster, limits=TaskLimits(chunk_records=1)), split())
    del cluster.limits["dead"]
    check(cluster, run(task(cluster), split()))


def test_a_task_that_is_fenced_while_it_opens_ends_as_fenced():
    def opened():
        raise FencedError

    cluster = filled(random.Random(6))
    assert run(task(cluster, open_writer=opened), split()).ending is TaskEnding.FENCED


def test_a_damaged_batch_ends_the_task_at_its_offset():
    cluster = filled(random.Random(7), 3)
    base = cluster.store("source", damaged(encode_stored([Record(NOW, b"1", b"private")])))
    with pytest.raises(UnreadableBatchError) as caught:
        run(task(cluster), split())
    assert f"topic source, partition 0, offset {base}" in str(caught.value)
    assert "private" not in str(caught.value)
    assert cluster.position is None or cluster.position.offset <= base


def test_a_batch_that_is_larger_than_allowed_ends_the_task():
    cluster = MemoryCluster()
    cluster.store("source", encode_stored([Record(NOW, b"1", b"x" * 5000)], attributes=3))
    with pytest.raises(UnreadableBatchError, match="offset 0"):
        run(task(cluster, limits=TaskLimits(max_decompressed_bytes=1000)), split())
    assert cluster.rows("clean") == []


def test_a_range_may_begin_and_end_within_a_batch():
    cluster = MemoryCluster()
    for base in range(0, 40, 10):
        records = [Record(NOW, b"%d" % n, b"fine") for n in range(base, base + 10)]
        cluster.store("source", encode_stored(records))
    whole = cluster.range("source")
    for first, end in ((0, 13), (13, 14), (14, 40)):
        cluster.position = None
        part = whole._replace(first=first, end=end)
        result = run(task(cluster, offsets=part), split())
        assert result.progress.counts.outcomes == {"accepted": end - first}
        assert (result.progress.counts_start, result.progress.offset) == (first, end)
    assert [row.key for row in cluster.rows("clean")] == [b"%d" % n for n in range(40)]


def test_a_range_without_records_is_completed():
    cluster = MemoryCluster()
    cluster.store("source", empty(0, 5))
    cluster.store("source", marker(5, 3, commit=False))
    result = run(task(cluster), split())
    assert (result.ending, result.progress.offset) == (TaskEnding.DONE, 6)
    assert cluster.position.offset == 6
    assert cluster.logs["clean", 0] == []
    nothing = task(cluster, offsets=cluster.range("other"))
    assert run(nothing, split()).ending is TaskEnding.DONE


def test_counts_of_another_run_are_not_added_to():
    """`redrive` continues where the run before ended, and counts from zero."""
    cluster = filled(random.Random(8), 10)
    half = cluster.range("source")._replace(end=cluster.end("source") // 2)
    first = run(task(cluster, offsets=half, run="monday"), split())
    rest = cluster.range("source")._replace(first=half.end)
    second = run(task(cluster, offsets=rest, run="tuesday"), split())
    assert second.progress.counts_start == half.end
    total = first.progress.counts.plus(second.progress.counts)
    check(cluster, second._replace(progress=second.progress._replace(counts=total)))


def test_counts_begin_again_after_a_moved_position():
    cluster = filled(random.Random(9), 10)
    run(task(cluster), split())
    cluster.position = Position(30)
    before = len(cluster.rows("clean"))
    result = run(task(cluster), split())
    assert result.progress.counts_start == 30
    after = len(cluster.rows("clean")) - before
    assert result.progress.counts.outcomes[Outcome.ACCEPTED.value] == after


def test_chunks_end_by_bytes_by_records_and_by_time():
    times = iter(range(10_000))
    for limits, clock in (
        (TaskLimits(chunk_bytes=1), lambda: 0.0),
        (TaskLimits(chunk_records=1), lambda: 0.0),
        (TaskLimits(chunk_s=1.0), lambda: float(next(times))),
    ):
        cluster = filled(random.Random(10), 12)
        batches = sum(1 for _ in cluster.read(cluster.range("source"), on_lost=print))
        result = run(task(cluster, limits=limits, clock=clock), split())
        check(cluster, result)
        assert cluster.commits in {batches, batches + 1}
    cluster = filled(random.Random(10), 12)
    check(cluster, run(task(cluster, limits=TaskLimits(), clock=lambda: 0.0), split()))
    assert cluster.commits == 1


def test_records_that_retention_removed_are_counted_and_reported():
    cluster = filled(random.Random(11), 10)
    cluster.starts["source", 0] = 25
    reported = []
    result = run(task(cluster, on_lost=reported.append), split())
    assert [(batch.first, batch.end) for batch in reported] == [(0, 25)]
    assert result.progress.counts.removed == 25
    assert run(task(cluster), split()).progress.counts.removed == 25


def test_a_strict_reader_raises_for_records_that_retention_removed():
    def strict(lost):
        raise RuntimeError("records are gone")

    cluster = filled(random.Random(12), 10)
    cluster.starts["source", 0] = 25
    with pytest.raises(RuntimeError, match="gone"):
        run(task(cluster, on_lost=strict), split())
    assert cluster.position is None


def test_a_task_that_is_stopped_leaves_the_rest_to_another_task():
    """No record is written or counted twice, whatever the name of the other task is."""
    cluster = filled(random.Random(8))
    end, reached, counted, names = cluster.end("source"), 0, Counter(), itertools.count()
    while reached < end:
        part = cluster.range("source")._replace(first=reached)
        result = run(
            task(cluster, offsets=part, run=f"run:{next(names)}", is_over=lambda: True), split()
        )
        assert result.ending is (
            TaskEnding.DONE if result.progress.offset == end else TaskEnding.STOPPED
        )
        assert result.progress.counts_start == reached < result.progress.offset
        reached = result.progress.offset
        counted.update(result.progress.counts.outcomes)
    assert next(names) > 5
    rows = [row for row in cluster.rows("source") if row.headers or row.key.isdigit()]
    assert counted == Counter(map(fate, rows))
    check(cluster, None)


def test_a_policy_that_cannot_decide_now_ends_the_task_and_the_next_continues(monkeypatch):
    """Uncommitted work is aborted; no record becomes a dead letter."""
    cluster = MemoryCluster()
    for value in (b"fine", b"later", b"fine"):
        records = [Record(NOW, b"k", value, ()), Record(NOW, b"k", b"bad", ())]
        cluster.store("source", encode_stored(records))
    job = split(chain(validators=[Later, NoBad]))
    with pytest.raises(PostponedError, match="Later: the registry is unavailable"):
        run(task(cluster, limits=TaskLimits(chunk_records=2)), job)
    before = [row.value for row in cluster.rows("clean")]
    assert before == [b"fine"]

    monkeypatch.setattr(Later, "away", False)
    result = run(
        task(cluster, limits=TaskLimits(chunk_records=2)), split(chain(validators=[Later, NoBad]))
    )
    assert result.ending is TaskEnding.DONE
    assert [row.value for row in cluster.rows("clean")] == [b"fine", b"later", b"fine"]
    assert [row.value for row in cluster.rows("dead")] == [b"bad"] * 3


@pytest.mark.parametrize("moved", [False, True])
def test_earlier_batches_are_shown_once_unless_another_task_moved_the_position(moved):
    cluster, shown, seen = MemoryCluster(), [], []
    for n in range(40):
        cluster.store("source", encode_stored([Record(NOW, b"%d" % n, b"fine")]))
    aborts = itertools.count()

    def disturb(moment):
        if moment == "commit" and next(aborts) in (0, 2):
            if moved and cluster.position is None:
                cluster.position = Position(30, "")
            raise AbortedError("lost")

    cluster.disturb = disturb
    job = split()

    def recall(batch):
        shown.extend(batch.offsets)

    class Seeing:
        rest, forget, refuse = job.rest, job.forget, job.refuse

        def process(self, batch, counts):
            seen.extend(batch.offsets)
            return job.process(batch, counts)

    offsets = cluster.range("source")._replace(first=20)
    some = task(
        cluster, offsets=offsets, recall=recall, looks_back=5, merges=False,
        limits=TaskLimits(chunk_records=4),
    )  # fmt: skip
    assert run(some, Seeing()).ending is TaskEnding.DONE
    assert shown == [*range(15, 20), *(range(25, 30) if moved else ())]
    assert set(seen) == {*range(20, 24), *range(30, 40)} if moved else set(range(20, 40))
