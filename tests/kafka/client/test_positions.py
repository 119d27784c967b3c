"""Names of tasks in the cluster, and positions."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from penstock.configuration.errors import ConfigurationError
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import ClientError, ResponseError
from penstock.kafka.client.positions import (
    Position,
    PositionTask,
    check_job,
    commit_positions,
    read_last_positions,
    read_positions,
    redrive_job,
    short_id,
)
from tests.kafka.client.scripted import GROUP_FETCH, LOST, Clock, ScriptedConnection

ID = uuid.UUID("2c9b0f2a-9d1e-4f0b-8a55-0123456789ab")


def test_names():
    whole = PositionTask("split-1", "orders", ID, 3)
    assert whole.transactional_id == "penstock-split-1:LJsPKp0eTwuKVQEjRWeJqw:3"
    assert whole.group == "penstock-split-1"
    part = whole._replace(first=4711)
    assert part.transactional_id == "penstock-split-1:LJsPKp0eTwuKVQEjRWeJqw:3:4711"
    assert part.group == "penstock-split-1:4711"


TASKS = st.builds(
    PositionTask,
    job=st.from_regex(r"[A-Za-z0-9._-]{1,10}", fullmatch=True),
    topic=st.just("t"),
    topic_id=st.uuids(),
    partition=st.integers(0, 20),
    first=st.none() | st.integers(0, 20),
)


@given(TASKS, TASKS)
def test_different_tasks_have_different_names(task, other):
    assert (task.transactional_id == other.transactional_id) == (task == other)


@given(TASKS)
def test_every_job_is_accepted(task):
    assert check_job(task.job, "--job") == task.job


@pytest.mark.parametrize("job", ["", "a b", "a:b", "ä", "x" * 301, "a\n"])
def test_invalid_names_of_jobs(job):
    with pytest.raises(ConfigurationError, match="--job"):
        check_job(job, "--job")


def test_the_longest_target_has_a_job():
    name = "x" * 249
    job = redrive_job(name, ID, [name])
    assert check_job(job, "--to") == f"redrive-{name}-{short_id(ID)}"
    others = redrive_job(name, ID, ["a", "b"])
    assert check_job(others, "--to") == redrive_job(name, ID, ["b", "a"])
    assert len({job, others, redrive_job(name, ID, ["a"])}) == 3


@given(
    st.builds(
        Position,
        offset=st.integers(0, 2**62),
        metadata=st.text(max_size=20),
        run=st.text(st.characters(exclude_characters="\n"), max_size=5),
    )
)
def test_the_text_of_a_committed_offset_is_read_back(position):
    assert Position.of(position.offset, position.committed_metadata) == position


def test_positions_of_others_are_read_as_they_are():
    assert Position.of(5, "") == Position(5)
    assert Position.of(5, "somebody's text") == Position(5, "somebody's text")
    assert Position(5, "text").committed_metadata == "text"


def test_positions_are_read_and_committed():
    broker = ScriptedConnection(backoff_s=0.001)
    places = {("a", 0): Position(5), ("a", 2): Position(2**40, "x" * 4096), ("b", 1): Position(0)}
    commit_positions(broker, "penstock-j", places)
    assert read_positions(broker, "penstock-j", {"a": [0, 1, 2], "b": [1]}) == places
    assert read_positions(broker, "penstock-other", {"a": [0, 1, 2]}) == {}


@pytest.mark.parametrize(
    "step", [LOST, int(ErrorCode.unstable_offset_commit), int(ErrorCode.not_coordinator)]
)
def test_reading_is_repeated(step):
    """While a transaction is about to commit an offset, its value is unknown."""
    broker = ScriptedConnection(backoff_s=0.001)
    broker.committed["g", "a", 0] = (7, "")
    broker.script[GROUP_FETCH] = [step, step]
    assert read_positions(broker, "g", {"a": [0]}) == {("a", 0): Position(7)}
    forgotten = [] if step == ErrorCode.unstable_offset_commit else [("g", False)] * 2
    assert broker.forgotten == forgotten
    assert all(request.require_stable for _, request in broker.sent_requests)


def test_the_position_is_read_after_a_writer_was_killed(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(
        "penstock.kafka.client.connections.coordinators.Retries",
        lambda settings: Retries(settings, clock=clock, sleep=clock.sleep),
    )
    broker = ScriptedConnection()
    broker.committed["g", "a", 0] = (7, "")
    broker.is_unstable = True
    with pytest.raises(ResponseError, match="UNSTABLE_OFFSET_COMMIT"):
        read_positions(broker, "g", {"a": [0]})
    assert read_last_positions(broker, "g", {"a": [0]}) == {("a", 0): Position(7)}
    broker.is_unstable = False
    broker.script[GROUP_FETCH] = [int(ErrorCode.group_authorization_failed)]
    with pytest.raises(ClientError, match="group"):
        read_last_positions(broker, "g", {"a": [0]})
