"""When the topic with the state of producers is opened, and what is taken over into it."""

import time

import pytest
from structlog.testing import capture_logs

from penstock.configuration import read_configuration
from penstock.gateway.produce.producer_state.cluster import ClusterStore
from penstock.gateway.produce.producer_state.former_numbers import former_file
from penstock.gateway.produce.producer_state.known_producers import EXPIRATION_S
from penstock.gateway.produce.producer_state.opening import open_producers
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.kafka.cluster.brokers import UnreachableError
from penstock.kafka.cluster.compacted_topic import CompactedTopic, CompactedTopicError
from tests.gateway.produce.producer_state.former_file import KEY, record_of, write_former_file


class Topic:
    """The state topic of a cluster, as far as it is opened and written.

    Attributes:
        records: Those that it has when it is opened.
        written: The records that were written to it.
        is_there: Whether it exists.
        failure: Why it cannot be read.
    """

    def __init__(self):
        self.records = []
        self.written = []
        self.is_there = False
        self.failure = None

    async def start(self, _timeout_s, take):
        if self.failure is not None:
            raise self.failure
        for position, (key, record) in enumerate(self.records, 1):
            take(key, record, time.time(), position)

    def keep(self, key, record, _done):
        self.written.append((key, record))


@pytest.fixture
def topic(monkeypatch):
    topic = Topic()
    monkeypatch.setattr(ClusterStore, "start", lambda _, *call: topic.start(*call))
    monkeypatch.setattr(ClusterStore, "keep", lambda _, *call: topic.keep(*call))
    monkeypatch.setattr(CompactedTopic, "is_there", lambda *_: topic.is_there)
    return topic


@pytest.fixture
def configuration(tmp_path):
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "upstream.bootstrap.servers": "127.0.0.1:1",
    }
    return read_configuration(tmp_path / "gateway.properties", properties)


@pytest.fixture
def write_file(configuration):
    def write(cluster="c", **more):
        write_former_file(former_file(configuration, cluster), **more)

    return write


@pytest.mark.parametrize(
    ("is_there", "loses_records", "is_opened"),
    [(False, False, False), (False, True, True), (True, False, True), (True, True, True)],
)
async def test_it_is_opened_if_records_may_be_lost_or_were(
    topic, configuration, is_there, loses_records, is_opened
):
    topic.is_there = is_there
    opened = await open_producers(configuration, "c", "g", loses_records=loses_records)
    assert (opened.shared is not None) is is_opened
    await opened.close()


@pytest.mark.parametrize("loses_records", [True, False])
async def test_numbers_in_a_file_are_taken_over(topic, configuration, write_file, loses_records):
    """Also if the interceptors have been removed since: their producers continue."""
    write_file()
    opened = await open_producers(configuration, "c", "g", loses_records=loses_records)
    assert opened.producers.find(KEY, 0, Range(0, 4)).dropped_count == 1
    assert [key for key, _ in topic.written] == [KEY]
    await opened.close()


async def test_a_record_of_the_topic_is_newer_than_that_of_the_file(
    topic, configuration, write_file
):
    write_file()
    topic.records.append((KEY, record_of(KEY, Range(4, 3), (1, 2))))
    opened = await open_producers(configuration, "c", "g", loses_records=True)
    assert opened.producers.find(KEY, 0, Range(4, 3)).dropped_count == 2
    await opened.close()


async def test_the_file_of_another_cluster_is_not_taken_over(topic, configuration, write_file):
    write_file("other")
    opened = await open_producers(configuration, "c", "g", loses_records=False)
    assert opened.shared is None


async def test_a_file_whose_producers_are_forgotten_opens_no_topic(
    topic, configuration, write_file
):
    write_file(age_s=EXPIRATION_S + 1)
    opened = await open_producers(configuration, "c", "g", loses_records=False)
    assert opened.shared is None


async def test_a_record_of_the_file_that_cannot_be_read_costs_no_other(
    topic, configuration, write_file
):
    write_file()
    write_file(key=KEY._replace(producer_id=8), record=b"[]", age_s=60.0)
    with capture_logs() as lines:
        opened = await open_producers(configuration, "c", "g", loses_records=True)
    assert opened.producers.find(KEY, 0, Range(0, 4)) is not None
    assert "the state of a producer in a file is ignored" in [line["event"] for line in lines]
    await opened.close()


async def test_a_topic_that_cannot_be_read_now_is_an_error_that_may_pass(topic, configuration):
    topic.failure = CompactedTopicError("no leader")
    with pytest.raises(UnreachableError, match="no leader"):
        await open_producers(configuration, "c", "g", loses_records=True)
