"""Permanent places: their records, and where a job continues."""

import json
import time
import uuid

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import Position, PositionTask, read_positions, redrive_job
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.client.writing.transactional_writer import TransactionalWriter
from penstock.kafka.cluster.compacted_topic import LogRecord
from penstock.kafka.cluster.places import (
    LostPlaceError,
    Places,
    find_starts,
    read_places,
)
from tests.integration.reading import topic_id
from tests.kafka.client.log_records import ID, OTHER_ID, RECORDS, TASKS, log_record
from tests.kafka.client.scripted import ScriptedConnection

SIGN = "topic dead.parked exists"


def places(*records):
    return Places("__penstock_places", records)


def starts(broker, found, **options):
    return find_starts(broker, TASKS, found, **options)


def test_a_place_is_read_back():
    at = Position(2**50, '{"returned": 5}', "run")
    found = places(log_record(TASKS[1], Position(3)), log_record(TASKS[1], at))
    assert found.find(TASKS[1]) == at._replace(metadata="")
    assert found.find(TASKS[0]) is None
    assert found.has_any(ID)
    assert not found.has_any(OTHER_ID)
    assert found.has_topic("dead")
    assert not found.has_topic("clean")
    assert found.topics_of("redrive-clean") == {"dead"}
    assert found.topics_of("redrive-other") == frozenset()


def test_people_can_read_it():
    record = log_record(TASKS[1], Position(12, "m", "r"))
    assert record.key == TASKS[1].transactional_id.encode()
    assert json.loads(record.value) == {
        "job": "redrive-clean", "topic": "dead", "topic_id": "AAAAAAAAAAAAAAAAAAAABw",
        "partition": 1, "offset": 12, "metadata": "", "run": "r",
    }  # fmt: skip


def test_a_place_can_be_removed():
    removed = LogRecord(2, TASKS[1].transactional_id.encode(), None)
    found = places(log_record(TASKS[1], Position(3)), removed, LogRecord(3, ends=True))
    assert found.find(TASKS[1]) is None
    assert not found.has_any(ID)


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b'{"offset": "x", "metadata": ""}'])
def test_a_place_that_cannot_be_read(value):
    found = places(LogRecord(1, TASKS[0].transactional_id.encode(), value))
    with pytest.raises(LostPlaceError, match="cannot be read"):
        found.find(TASKS[0])


def test_a_first_run_begins_at_the_beginning():
    assert starts(ScriptedConnection(), places()) == {}


def test_the_committed_offset_counts_before_the_place():
    """Operators move it."""
    broker = ScriptedConnection()
    broker.committed["penstock-redrive-clean", "dead", 1] = (10, "")
    found = places(log_record(TASKS[1], Position(3000)), log_record(TASKS[2], Position(20)))
    assert starts(broker, found, sign=SIGN) == {1: Position(10), 2: Position(20)}


def test_committed_offsets_that_were_removed():
    found = places(*(log_record(task, Position(100 + task.partition)) for task in TASKS))
    expected = {partition: Position(100 + partition) for partition in range(3)}
    assert starts(ScriptedConnection(), found, sign=SIGN) == expected


def test_the_group_of_an_earlier_version():
    broker = ScriptedConnection()
    broker.committed["penstock-redrive-old", "dead", 0] = (44, "")
    former = {"former_group": "penstock-redrive-old", "sign": SIGN}
    assert starts(broker, places(), **former) == {0: Position(44)}
    broker.committed["penstock-redrive-old", "dead", 1] = (45, "")
    found = places(log_record(TASKS[0], Position(50)))
    assert starts(broker, found, **former) == {0: Position(50), 1: Position(45)}
    broker.committed["penstock-redrive-clean", "dead", 1] = (60, "")
    assert starts(broker, found, **former) == {0: Position(50), 1: Position(60)}


def test_a_lost_place():
    with pytest.raises(LostPlaceError) as caught:
        starts(
            ScriptedConnection(), places(), former_group="penstock-redrive-old", sign=SIGN,
            remedy="say where to begin",
        )  # fmt: skip
    text = str(caught.value)
    assert "dead was processed before (topic dead.parked exists)" in text
    assert "penstock-redrive-clean" in text
    assert "penstock-redrive-old" in text
    assert "__penstock_places" in text
    assert text.endswith("say where to begin")


def test_a_place_of_another_job_explains_the_sign():
    """The dead letters were redriven to another target, and nothing is lost."""
    other = TASKS[0]._replace(job="redrive-elsewhere")
    found = places(log_record(other, Position(5)))
    assert starts(ScriptedConnection(), found, sign=SIGN) == {}


def test_a_topic_that_was_created_again_has_no_places():
    found = places(log_record(TASKS[0]._replace(topic_id=OTHER_ID), Position(5)))
    assert starts(ScriptedConnection(), found) == {}
    with pytest.raises(LostPlaceError):
        starts(ScriptedConnection(), found, sign=SIGN)


def test_a_place_outlasts_the_committed_offsets(kafka, admin, topic, tmp_path):
    """The group is removed, as brokers do 7 days after its last commit."""
    file = tmp_path / "penstock.properties"
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    places_topic, dead = f"places-{uuid.uuid4().hex[:8]}", topic("dead", partitions=2)
    job = redrive_job("clean", OTHER_ID, ["clean", uuid.uuid4().hex])
    tasks = [PositionTask(job, dead, topic_id(admin, dead), partition) for partition in range(2)]

    def read():
        return read_places(properties, file, places_topic, key="redrive.places.topic")

    with Connection(properties, file) as connection:
        assert find_starts(connection, tasks, read(), sign="") == {}
        for offset in (5, 9):
            with TransactionalWriter(
                connection, tasks[1], places=PlaceRecords(places_topic)
            ) as writer:
                writer.commit(Position(offset, "counts"))
                writer.write(dead, 0, RECORDS.batch(tasks[0], Position(1)), RECORDS.source)
        expected = {1: Position(9)}
        deadline = time.monotonic() + 60
        while read().find(tasks[1]) != expected[1]:  # until the broker has written its markers
            assert time.monotonic() < deadline
        counted = {1: Position(9, "counts")}
        assert find_starts(connection, tasks, read(), sign=SIGN) == counted
        admin.delete_consumer_groups([tasks[1].group])[tasks[1].group].result(60)
        assert read_positions(connection, tasks[1].group, {dead: [0, 1]}) == {}
        assert find_starts(connection, tasks, read(), sign=SIGN) == expected
        assert read().find(tasks[0]) is None, "an aborted mark does not count"
        with pytest.raises(LostPlaceError):
            find_starts(connection, tasks, places(), sign=SIGN)
    resource = ConfigResource(ResourceType.TOPIC, places_topic)
    configs = admin.describe_configs([resource])[resource].result(60)
    assert configs["cleanup.policy"].value == "compact"
