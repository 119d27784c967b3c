"""Records that brokers do not accept; with brokers, see the integration tests."""

import time

import pytest
from kio.schema.errors import ErrorCode

from penstock.gateway.observing.audit_trail import topic as audit_topic
from penstock.gateway.observing.audit_trail.topic import AuditTopic
from penstock.kafka.client.connections.metadata import NO_NODE, PartitionLeader
from penstock.kafka.client.connections.pipeline import Pipeline
from penstock.kafka.client.errors import DeniedError, response_error
from penstock.kafka.records.stored_batch import read_stored_batch
from tests.kafka.client.scripted import LOST, PRODUCE, UNANSWERED, ScriptedConnection, read_produce

TOO_LARGE = ErrorCode.message_too_large
TOO_FEW = ErrorCode.not_enough_replicas
LEADER = PartitionLeader(1, 0)


class Broker(ScriptedConnection):
    """A broker on which some partitions fail with every request.

    Attributes:
        failing: By partition, the step of the script.
    """

    def __init__(self):
        super().__init__(backoff_s=0.0, max_backoff_s=0.0)
        self.failing = {}

    def begin(self, node, request, *, channel="", has_deadline=False):
        ((_, partition, _),) = read_produce(request.body)
        if partition in self.failing:
            self.script[PRODUCE] = [self.failing[partition]]
        return super().begin(node, request, channel=channel)

    def leader(self, topic, partition, *, timeout_s=None):
        if partition not in self.leaders_of_topic:
            raise response_error(ErrorCode.unknown_topic_or_partition, f"topic {topic}")
        return super().leader(topic, partition, timeout_s=timeout_s)


@pytest.fixture
def broker(monkeypatch):
    connection = Broker()
    monkeypatch.setattr(audit_topic, "connect", lambda *_: connection)
    monkeypatch.setattr(audit_topic, "_RETRY_S", 0.0)
    return connection


@pytest.fixture
def topic(broker, tmp_path):
    made = AuditTopic({"bootstrap.servers": "127.0.0.1:1"}, "audit", tmp_path / "p")
    made.settled, made.warnings = [], []
    made.start(
        lambda records, *, is_written: made.settled.extend(
            (record, is_written) for record in records
        ),
        made.warnings.append,
    )
    return made


@pytest.fixture
def three(broker, monkeypatch):
    """A broker with three partitions, of which the first possible is chosen, and short limits."""
    broker.leaders_of_topic = dict.fromkeys(range(3), LEADER)
    limits = audit_topic._LIMITS
    short = limits._replace(delivery_timeout_s=limits.delivery_timeout_s / 300)
    monkeypatch.setattr(audit_topic, "_LIMITS", short)
    monkeypatch.setattr(audit_topic.random, "choice", min)
    return broker


def work_for_a_while(topic):
    """Work until all is stored; a second at most."""
    end = time.monotonic() + 1
    while topic.work() is not None and time.monotonic() < end:
        pass


def partitions_tried(broker):
    """The partitions in the order in which they got requests, without repetitions in a row."""
    tried = []
    for ((_, partition),) in broker.requests:
        if tried[-1:] != [partition]:
            tried.append(partition)
    return tried


def stored(broker, partition=0):
    """The records of each batch that a broker has."""
    batches = broker.logs["audit", partition].batches
    return [
        list(read_stored_batch(batch, max_decompressed_bytes=10_000).records.values)
        for batch in batches
    ]


def test_records_are_settled_once_brokers_have_stored_them(topic, broker):
    topic.take([b"1", b"2"])
    assert topic.settled == []
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert stored(broker) == [[b"1", b"2"]]


def test_there_is_nothing_to_do_without_records(topic, broker):
    assert topic.work() is None
    assert broker.sent_requests == []


def test_many_records_are_sent_in_several_batches(topic, broker, monkeypatch):
    monkeypatch.setattr(audit_topic, "_BATCH_BYTES", 2)
    topic.take([b"1", b"2", b"3"])
    assert topic.work() == 0.0
    assert topic.work() is None
    assert stored(broker) == [[b"1", b"2"], [b"3"]]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.topic_authorization_failed,
        ErrorCode.invalid_topic_exception,
        ErrorCode.policy_violation,
    ],
)
def test_records_that_brokers_do_not_accept_are_sent_again(topic, broker, code):
    broker.script[PRODUCE] = [code, code]
    topic.take([b"1", b"2"])
    assert topic.work() is not None
    assert topic.work() is not None
    assert topic.settled == []
    assert code.name.upper() in topic.warnings[0]
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert len(stored(broker)) == 1


@pytest.mark.parametrize(
    "step", [LOST, ErrorCode.not_enough_replicas, ErrorCode.unknown_topic_or_partition]
)
def test_the_same_producer_sends_records_again_after_an_error_that_may_pass(topic, broker, step):
    broker.script[PRODUCE] = [step] * 3
    topic.take([b"1", b"2"])
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert len(topic.warnings) == 3
    assert broker.epoch == 1


def test_records_wait_before_they_are_sent_again(topic, broker, monkeypatch):
    monkeypatch.setattr(audit_topic, "_RETRY_S", 60.0)
    broker.script[PRODUCE] = [ErrorCode.policy_violation]
    topic.take([b"1"])
    assert topic.work() is not None
    assert 50 < topic.work() <= 60
    assert topic.settled == []


def test_a_record_that_brokers_can_never_accept_is_dropped(topic, broker):
    broker.script[PRODUCE] = [TOO_LARGE]
    topic.take([b"1"])
    assert topic.work() is None
    assert topic.settled == [(b"1", False)]
    assert topic.warnings


def test_a_batch_that_a_broker_calls_corrupt_is_not_sent_forever(topic, broker):
    broker.script[PRODUCE] = [ErrorCode.corrupt_message]
    topic.take([b"1"])
    assert topic.work() is None
    assert topic.settled == [(b"1", False)]


def test_records_of_a_rejected_batch_are_sent_one_by_one(topic, broker):
    broker.script[PRODUCE] = [TOO_LARGE, None, TOO_LARGE]
    topic.take([b"1", b"2"])
    assert topic.work() is not None
    assert topic.settled == []
    assert topic.warnings == []
    topic.take([b"3", b"4"])
    while topic.work() is not None:
        pass
    assert topic.settled == [(b"1", True), (b"2", False), (b"3", True), (b"4", True)]
    assert stored(broker) == [[b"1"], [b"3", b"4"]]


def test_a_record_stays_alone_after_another_error(topic, broker):
    broker.script[PRODUCE] = [TOO_LARGE, ErrorCode.policy_violation]
    topic.take([b"1", b"2"])
    while topic.work() is not None:
        pass
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert [batch for batch in stored(broker) if len(batch) > 1] == []


@pytest.mark.parametrize(
    "code", [ErrorCode.out_of_order_sequence_number, ErrorCode.producer_fenced]
)
def test_after_a_fatal_error_another_producer_sends_all_records(topic, broker, code):
    broker.script[PRODUCE] = [code]
    topic.take([b"1", b"2", b"3"])
    assert topic.work() is not None
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True), (b"3", True)]
    assert broker.epoch == 2


@pytest.mark.parametrize("step", ["own_batch", "Pipeline.put", "Pipeline.poll"])
def test_records_are_not_lost_with_an_unexpected_error(topic, broker, monkeypatch, step):
    topic.take([b"1"])
    assert topic.work() is None

    def failing(*_, **__):
        raise MemoryError

    topic.take([b"2", b"3"])
    with monkeypatch.context() as patched:
        place = audit_topic if step == "own_batch" else Pipeline
        patched.setattr(place, step.rpartition(".")[2], failing)
        with pytest.raises(MemoryError):
            topic.work()
    assert topic.settled == [(b"1", True)]
    topic.take([b"4"])
    assert topic.work() is None
    assert topic.settled == [(record, True) for record in (b"1", b"2", b"3", b"4")]
    assert stored(broker) == [[b"1"], [b"2", b"3", b"4"]]


def test_records_wait_after_an_unexpected_error(topic, monkeypatch):
    monkeypatch.setattr(audit_topic, "_RETRY_S", 60.0)
    monkeypatch.setattr(audit_topic, "own_batch", None)
    topic.take([b"1"])
    with pytest.raises(TypeError):
        topic.work()
    assert 50 < topic.work() <= 60


@pytest.mark.parametrize("step", [LOST, TOO_FEW, ErrorCode.leader_not_available])
def test_a_partition_that_fails_does_not_stop_the_others(topic, three, step):
    three.failing[0] = step
    topic.take([b"1", b"2"])
    work_for_a_while(topic)
    assert topic.settled == [(b"1", True), (b"2", True)]
    topic.take([b"3"])
    assert topic.work() is None
    assert stored(three, 1) == [[b"1", b"2"], [b"3"]]
    assert partitions_tried(three) == [0, 1]
    assert topic.warnings


def test_records_go_on_after_a_partition_has_gone(topic, three, monkeypatch):
    """As when the topic is created again with fewer partitions."""
    three.leaders_of_topic = {2: LEADER}
    three.failing[2] = ErrorCode.unknown_topic_or_partition
    fewer = {0: LEADER, 1: LEADER}
    monkeypatch.setattr(three, "refresh", lambda _: setattr(three, "leaders_of_topic", fewer))
    topic.take([b"1"])
    work_for_a_while(topic)
    assert topic.settled == [(b"1", True)]
    assert [partition for ((_, partition),) in three.requests] == [2, 0]


def test_the_partition_that_failed_first_is_tried_first(topic, three):
    three.failing = {0: TOO_FEW, 1: ErrorCode.policy_violation, 2: TOO_FEW}
    topic.take([b"1"])
    end = time.monotonic() + 1
    while len(partitions_tried(three)) < 5 and time.monotonic() < end:
        topic.work()
    assert partitions_tried(three)[:5] == [0, 1, 2, 0, 1]
    del three.failing[2]
    work_for_a_while(topic)
    assert topic.settled == [(b"1", True)]
    assert stored(three, 2) == [[b"1"]]


def test_a_partition_that_failed_is_used_again_after_a_time(topic, three, monkeypatch):
    three.script[PRODUCE] = [ErrorCode.policy_violation]
    topic.take([b"1"])
    work_for_a_while(topic)
    monkeypatch.setattr(audit_topic, "_AVOIDED_S", 0.0)
    topic.take([b"2"])
    work_for_a_while(topic)
    assert partitions_tried(three) == [0, 1, 0]


def test_a_record_without_a_response_can_be_stored_twice_and_counts_once(topic, three):
    three.failing[0] = UNANSWERED
    topic.take([b"1"])
    work_for_a_while(topic)
    assert stored(three, 0) == stored(three, 1) == [[b"1"]]
    assert topic.settled == [(b"1", True)]


def test_records_wait_for_a_leader(topic, broker):
    broker.leaders_of_topic = {0: PartitionLeader(NO_NODE, 0)}
    topic.take([b"1"])
    assert topic.work() is not None
    assert "LEADER_NOT_AVAILABLE" in topic.warnings[0]
    assert broker.refreshed == ["audit"]


def test_records_that_are_not_delivered_at_the_end_are_not_settled(topic, broker):
    broker.leaders = [response_error(5, "topic audit")] * 1_000_000
    topic.take([b"1"])
    topic.work()
    topic.close()
    assert topic.settled == []


def test_a_login_without_rights_is_an_error_of_the_configuration(broker, topic, monkeypatch):
    def denied(*_, **__):
        raise DeniedError(29, "topic audit")

    monkeypatch.setattr(audit_topic, "describe", denied)
    with pytest.raises(Exception, match="needs Describe and Write on it"):
        topic.open(1.0)
