"""Whether the records of a source are in a target already, by a real Kafka."""

import time

import pytest

from penstock.jobs.tasks.written_before import find_written
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.cluster.offsets import Cluster
from tests.kafka.client.settings import FILE
from tests.spark.conftest import BOTH

NOW = 1_700_000_000_000


@pytest.fixture
def found(kafka):
    """Looks for the first records of a source in a target."""
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    cluster = Cluster(properties, FILE)
    with Connection(properties, FILE) as connection:
        yield lambda source, target, **how: find_written(
            connection,
            cluster,
            cluster.ranges(cluster.topics(source), "earliest"),
            cluster.topic(target),
            **how,
        )


def records(count, *, first=0, value=b"v", partition=0):
    return [
        {"key": b"%d" % n, "value": value, "timestamp": NOW + n, "partition": partition}
        for n in range(first, first + count)
    ]


def test_records_of_other_producers_are_not_from_the_source(found, produce, topic):
    source, target = topic("in", 1), topic("good", 1)
    produce(source, records(20))
    assert found(source, target) is None
    produce(target, records(20, value=b"other") + records(20, first=1000))
    assert found(source, target) is None


def test_a_record_of_the_source_is_found_among_other_records(found, produce, topic):
    source, target = topic("in", 2), topic("good", 1)
    produce(source, records(20, partition=1))
    # The first records were refused, and another writer has newer and older records there.
    produce(target, records(300, first=500) + records(5, first=15) + records(300, first=900))
    at = found(source, target)
    assert (at.topic, at.number) == (source, 1)


def test_a_rewritten_record_is_found_by_its_key(found, produce, topic):
    source, target = topic("in", 1), topic("good", 1)
    produce(source, records(20))
    produce(target, records(20, value=b"***"))
    assert found(source, target) is None
    assert found(source, target, rewritten=True) is not None


def test_an_empty_source_or_target_has_nothing_in_common(found, produce, topic):
    source, target = topic("in", 1), topic("good", 1)
    assert found(source, target) is None
    produce(target, records(3))
    assert found(source, target) is None


@BOTH
@pytest.mark.slow
def test_a_first_run_into_a_target_with_other_records_begins(command, configured, produce, topic):
    source, good, dead = topic("in", 1), topic("good", 1), topic("dead", 1)
    produce(good, [{"value": b"theirs"}])
    time.sleep(0.01)  # records of the source are newer
    produce(source, [{"value": b"good"}, {"value": b"bad"}])
    file = configured()
    # No job of this cluster has a place in this topic.
    file.write_text(file.read_text() + f"redrive.places.topic={source}-places\n")
    done = command("split", file, "--topic", source, "--accepted", good, "--rejected", dead)
    assert done.code == 0, done
    assert "1 accepted, 1 refused" in done.out
    assert f"{good} holds records of others" in done.out
