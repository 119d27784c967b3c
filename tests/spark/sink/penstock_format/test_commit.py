"""Two phases on a real Kafka: a crash at each step between tasks and driver doubles nothing."""

import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.jobs.batches.targets import Target
from penstock.jobs.topics.access import ClusterAccess
from penstock.kafka.client.writing.decisions import BatchId, NotOpenError, TakenOverError
from penstock.kafka.client.writing.prepared import commit_prepared
from penstock.kafka.cluster.offsets import Cluster
from penstock.spark.sink.penstock_format import commit as sink_commit
from penstock.spark.sink.penstock_format.commit import LostTransactionsError
from penstock.spark.sink.penstock_format.task import Attempt, SinkTask
from tests.integration.reading import read_topic

OLD, NEW = "run-1", "run-2"


class Job:
    """A job of two tasks that write a value each, in a batch."""

    def __init__(self, kafka, topic, *, timeout_s=60.0):
        self.kafka, self.topic = kafka, topic
        properties = {"bootstrap.servers": kafka.bootstrap_servers}
        access = ClusterAccess.of(properties, Path("none"))
        found = Cluster(properties, Path()).topic(topic)
        target = Target(topic, len(found.partitions), 1_000_000)
        self.task = SinkTask(
            access, None, target, found.topic_id, None, transaction_timeout_s=timeout_s
        )
        self.name = f"test-{uuid.uuid4().hex[:8]}"

    @property
    def decisions(self):
        return self.task.decisions(self.name)

    def write(self, run, batch=0, *, attempt=0, tasks=(0, 1), query="q"):
        rows = {
            task: pa.RecordBatch.from_pydict({"value": pa.array([b"%d-%d" % (batch, task)])})
            for task in tasks
        }
        return [
            self.task.write(
                Attempt(self.name, run, BatchId(query, batch), task, attempt), [rows[task]]
            )
            for task in tasks
        ]

    def commit(self, written):
        sink_commit.commit(self.task, written)

    def decide(self, written, timeout_s=60.0):
        """Do the first half of `commit`, as a driver that was killed then."""
        first = written[0].attempt
        prepared = [item.prepared for item in written]
        self.decisions.decide(first.run, first.batch, prepared, timeout_s)

    def visible(self):
        servers = self.kafka.bootstrap_servers
        return Counter(
            record[2] for record in read_topic(servers, self.topic, isolation="read_committed")
        )


@pytest.fixture
def job(kafka, topic):
    return Job(kafka, topic("out", 2))


ONCE = Counter([b"0-0", b"0-1"])


def test_nothing_is_seen_before_the_driver_commits(job):
    written = job.write(OLD)
    assert not job.visible()
    job.commit(written)
    assert job.visible() == ONCE


def test_a_driver_that_dies_before_it_decides_has_written_nothing(job):
    job.write(OLD)
    job.commit(job.write(NEW))
    assert job.visible() == ONCE


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_driver_that_dies_after_it_decided_has_written_all(job, finished):
    written = job.write(OLD)
    job.decide(written)
    connection = job.task.access.connect()
    for item in written[:finished]:
        commit_prepared(connection, item.prepared)
    again = job.write(NEW)
    assert all(message.was_decided for message in again)
    job.commit(again)
    assert job.visible() == ONCE
    job.commit(job.write(NEW, 1))
    assert job.visible() == ONCE + Counter([b"1-0", b"1-1"])


def test_other_tasks_may_come_to_a_decided_batch(job):
    job.decide(job.write(OLD))
    job.commit(job.write(NEW, tasks=(0, 1, 2, 3)))
    assert job.visible() == ONCE


def test_a_driver_that_was_only_slow_can_decide_nothing_any_more(job):
    old = job.write(OLD)
    new = job.write(NEW)
    with pytest.raises((TakenOverError, LostTransactionsError)):
        job.commit(old)
    with pytest.raises(TakenOverError):
        job.decide(old)
    with pytest.raises(TakenOverError):
        job.write(OLD)
    job.commit(new)
    assert job.visible() == ONCE


def test_a_slow_driver_that_has_decided_continues_next_to_the_new_driver(job):
    old = job.write(OLD)
    job.decide(old)
    new = job.write(NEW)
    job.commit(new)
    sink_commit._finish(job.task, [message.prepared for message in old], BatchId("q", 0))
    assert job.visible() == ONCE


@pytest.mark.parametrize("number", [0, 1])
def test_a_second_attempt_neither_doubles_nor_fences_the_first(job, number):
    """With the same number, it is an attempt in a stage that Spark repeats."""
    first = job.write(OLD)
    job.write(OLD, attempt=number, tasks=(1,))
    job.commit(first)
    assert first[1].prepared.transactional_id.endswith(":1:0")
    job.commit(job.write(OLD, 1, attempt=number))
    assert job.visible() == ONCE + Counter([b"1-0", b"1-1"])


def test_a_transaction_without_enough_time_left_is_not_committed(kafka, topic):
    job = Job(kafka, topic("out", 2), timeout_s=25.0)
    written = job.write(OLD)
    with pytest.raises(NotOpenError) as error:
        job.decide(written, timeout_s=900.0)  # in a transaction of 30 seconds
    assert list(error.value.transactions) == [item.prepared for item in written]
    job.commit(written)
    assert job.visible() == ONCE


def test_the_transactions_of_a_failed_attempt_are_aborted(job):
    job.write(OLD, tasks=(1,))
    job.commit([*job.write(OLD, tasks=(0,)), *job.write(OLD, attempt=1, tasks=(1,))])
    assert job.visible() == ONCE


def test_transactions_that_ended_early_are_not_committed_in_part(job):
    written = job.write(OLD)
    job.task.write(written[0].attempt, [])
    sink_commit.abort_prepared(job.task.access.connect(), written[0].prepared)
    with pytest.raises(LostTransactionsError, match="nothing of the batch is written"):
        job.commit(written)
    sink_commit.abort(job.task, written)
    assert not job.visible()


def test_a_decided_batch_that_was_aborted_in_part_is_an_error(job):
    written = job.write(OLD)
    job.decide(written)
    sink_commit.abort_prepared(job.task.access.connect(), written[0].prepared)
    with pytest.raises(LostTransactionsError, match="of 2 before"):
        job.commit(job.write(NEW))


def test_an_abort_after_the_decision_aborts_nothing(job):
    written = job.write(OLD)
    job.decide(written)
    sink_commit.abort(job.task, written)
    job.commit(job.write(NEW))
    assert job.visible() == ONCE


def test_a_new_query_of_the_same_job_is_distinguished_from_the_old(job):
    job.commit(job.write(OLD))
    job.commit(job.write(NEW, query="another checkpoint"))
    assert set(job.visible().values()) == {2}


def test_an_abort_ends_the_transactions_of_failed_tasks(job):
    job.write(OLD, tasks=(1,))
    sink_commit.abort(job.task, job.write(OLD, tasks=(0,)))
    # Readers wait for no transaction: records of others are visible.
    job.commit(job.write(OLD, query="next", attempt=3))
    assert job.visible() == ONCE


def test_a_slow_driver_aborts_only_its_own_transactions(job):
    old = job.write(OLD)
    new = job.write(NEW)
    sink_commit.abort(job.task, old)
    job.commit(new)
    assert job.visible() == ONCE
