"""Workers of Kafka Connect, directly and behind gateways in each mode (docs/failures.md#clients)."""

import re
import uuid

import pytest

from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.interop.modes import (
    DIRECT,
    KEEP,
    REASONS,
    REFUSE,
    REMOVE,
    USERS,
    WAYS,
    gateway_of_all_topics,
    gateway_of_users_topics,
)
from tests.interop.programs import Programs
from tests.interop.workers import running_workers

pytestmark = pytest.mark.interop
VALUES = ['{"id": 1}', '{"no": 2}', '{"id": 3}']
GOOD = [VALUES[0], VALUES[2]]
SESSIONS = "sessions"
"""A worker behind `quarantine` that stores keys for the requests of other workers, as by default."""


@pytest.fixture(scope="module")
def workers(kafka, shared_gateway, tmp_path_factory):
    """A worker for each way to the broker on which all topics are judged, and one for users' topics."""
    addresses = {DIRECT: kafka.bootstrap_servers}
    for way in WAYS[1:]:
        addresses[way] = gateway_of_all_topics(shared_gateway, way).address
    addresses[SESSIONS] = addresses["quarantine"]
    addresses[USERS] = gateway_of_users_topics(shared_gateway).address
    run = uuid.uuid4().hex[:8]
    clusters = {
        f"{name}-{run}": {
            "bootstrap.servers": address,
            "connect.protocol": "compatible" if name in REFUSE else "sessioned",
        }
        for name, address in addresses.items()
    }
    folder = tmp_path_factory.mktemp("connect")
    with running_workers(Programs.CONNECT, folder, clusters) as found:
        yield {name.removesuffix(f"-{run}"): worker for name, worker in found.items()}


def source(topic: str, **settings: str) -> dict[str, str]:
    """Return the settings of a connector that writes VALUES to a topic."""
    written = {"topic": topic, "values": ",".join(VALUES)}
    return {"connector.class": "Workers$Values", **written, **settings}


def sink(topic: str) -> dict[str, str]:
    """Return the settings of a connector that prints a topic."""
    return {"connector.class": "Workers$Prints", "topics": topic}


@pytest.mark.parametrize("way", REFUSE)
def test_a_connector_whose_settings_cannot_be_stored_is_not_created(workers, topic, way):
    status, answer = workers[way].create("source", source(topic()))
    assert (status, answer["message"]) == (500, "Error writing connector configuration to Kafka")
    assert workers[way].connectors() == []
    assert re.search(REASONS[way], workers[way].log())


def test_a_worker_that_cannot_store_its_keys_says_why(workers):
    log = workers[SESSIONS].log
    wait_until(lambda: "Failed to write session key to Kafka" in log(), 120, what="its failure")
    assert workers[SESSIONS].connectors() == []


@pytest.mark.parametrize("way", KEEP)
def test_connectors_run_where_each_record_is_stored(workers, topic, stored, way):
    worker, target = workers[way], topic(f"{USERS}-{way}")
    assert worker.create("source", source(target))[0] == 201
    assert worker.create("sink", sink(target))[0] == 201
    wait_until(lambda: worker.printed("read", target) == VALUES, 120, what="the records")
    assert values_of(stored(target)) == [value.encode() for value in VALUES]


@pytest.mark.parametrize("way", [*KEEP[2:], *REMOVE])
def test_where_only_users_topics_are_judged_connectors_run(workers, topic, way):
    worker, target = workers[USERS], topic(f"{USERS}-{way}")
    assert worker.create(f"source-{way}", source(target))[0] == 201
    assert worker.create(f"sink-{way}", sink(target))[0] == 201
    wait_until(lambda: worker.printed("stored", target) == VALUES, 120, what="its records")
    expected = VALUES if way in KEEP else GOOD
    wait_until(lambda: worker.printed("read", target) == expected, 120, what="the stored records")
    assert worker.task(f"source-{way}")["state"] == "RUNNING"


def test_by_default_a_refusal_fails_the_task_and_a_restart_retries_the_record(
    workers, shared_gateway, topic, stored
):
    worker, target = workers[USERS], topic(f"{USERS}-enforce")

    def refused() -> int:
        events = gateway_of_users_topics(shared_gateway).events("records refused")
        return sum(event["topic"] == target for event in events)

    assert worker.create("fails", source(target))[0] == 201
    assert re.search(REASONS["enforce"], worker.wait_for("fails", "FAILED"))
    assert values_of(stored(target)) == [VALUES[0].encode()]
    before = refused()
    worker.call("connectors/fails/tasks/0/restart", "POST")
    wait_until(lambda: refused() > before, 120, what="the record again")
    worker.wait_for("fails", "FAILED")
    assert set(values_of(stored(target))) == {VALUES[0].encode()}


def test_with_tolerance_the_refused_record_is_left_out(workers, topic, stored):
    worker, target = workers[USERS], topic(f"{USERS}-enforce")
    assert worker.create("tolerates", source(target, **{"errors.tolerance": "all"}))[0] == 201
    wait_until(lambda: worker.printed("stored", target) == GOOD, 120, what="the good records")
    assert worker.printed("left out", target) == [VALUES[1]]
    assert worker.task("tolerates")["state"] == "RUNNING"
    assert values_of(stored(target)) == [value.encode() for value in GOOD]
