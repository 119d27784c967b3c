"""Records that brokers do not accept; with brokers, see the integration tests."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.gateway.observing.audit_trail import topic as audit_topic
from penstock.gateway.observing.audit_trail.topic import AuditTopic


class Broker:
    """The records that producers of the test have sent, and the results of their deliveries."""

    def __init__(self):
        self.producers, self.answer = [], None


class Producer:
    def __init__(self, broker, settings):
        self._broker, self._settings, self.sent = broker, settings, []
        broker.producers.append(self)

    def __len__(self):
        return len(self.sent)

    def produce(self, topic, value):
        assert topic == "audit"
        self.sent.append(value)

    def poll(self, timeout_s):
        sent, self.sent = self.sent, []
        for value in sent:
            self._settings["on_delivery"](
                self._broker.answer, SimpleNamespace(value=lambda v=value: v)
            )

    def purge(self):
        pass


@pytest.fixture
def broker(monkeypatch):
    found = Broker()
    monkeypatch.setattr(audit_topic, "new_producer", lambda settings: Producer(found, settings))
    monkeypatch.setattr(audit_topic, "_RETRY_S", 0.0)
    return found


@pytest.fixture
def topic(broker, tmp_path):
    made = AuditTopic({"bootstrap.servers": "127.0.0.1:1"}, tmp_path, "audit", tmp_path / "p")
    made._producer = made._new_producer()
    made.settled, made.warnings = [], []
    made.start(
        lambda records, *, is_written: made.settled.extend(
            (record, is_written) for record in records
        ),
        made.warnings.append,
    )
    return made


def test_records_are_settled_once_brokers_have_stored_them(topic):
    topic.take([b"1", b"2"])
    assert topic.settled == []
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
    ],
)
def test_records_that_brokers_do_not_accept_are_sent_again(topic, broker, code):
    broker.answer = KafkaError(code)
    topic.take([b"1", b"2"])
    assert topic.work() is not None
    assert topic.work() is not None
    assert topic.settled == []
    assert topic.warnings
    broker.answer = None
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert len(broker.producers) == 1


def test_a_record_that_brokers_can_never_accept_is_dropped(topic, broker):
    broker.answer = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    topic.take([b"1"])
    assert topic.work() is None
    assert topic.settled == [(b"1", False)]
    assert topic.warnings


def test_a_record_that_the_producer_can_never_accept_is_dropped(topic, broker, monkeypatch):
    def too_large(self, topic, value):
        raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))

    monkeypatch.setattr(Producer, "produce", too_large)
    topic.take([b"1"])
    assert topic.work() is None
    assert topic.settled == [(b"1", False)]


def test_records_of_a_rejected_batch_are_sent_one_by_one(topic, broker):
    broker.answer = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    topic.take([b"1", b"2"])
    topic._producer.poll(0)
    assert topic.settled == []
    broker.answer = None
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True)]
    assert topic.warnings == []
    assert [producer._settings.get("batch.num.messages") for producer in broker.producers] == [
        None,
        1,
    ]


def test_after_a_fatal_error_the_producer_for_single_records_is_replaced_too(topic, broker):
    broker.answer = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    topic.take([b"1"])
    topic._producer.poll(0)
    broker.answer = KafkaError(KafkaError._FATAL)
    assert topic.work() is not None
    broker.answer = None
    assert topic.work() is None
    assert topic.settled == [(b"1", True)]
    assert topic.work() is None
    assert topic._retired == []


def test_after_a_fatal_error_another_producer_sends_all_records(topic, broker):
    broker.answer = KafkaError(KafkaError._FATAL)
    topic.take([b"1", b"2", b"3"])
    assert topic.work() is not None
    broker.answer = None
    assert topic.work() is None
    assert topic.settled == [(b"1", True), (b"2", True), (b"3", True)]
    assert len(broker.producers) == 2
    assert topic.work() is None
    assert topic._retired == []


def test_records_that_are_not_delivered_at_the_end_are_not_settled(topic, broker):
    broker.answer = KafkaError(KafkaError._PURGE_QUEUE)
    topic.take([b"1"])
    topic.close()
    assert topic.settled == []
