"""The text of a decision: which transactions are committed, and which run has the job."""

import random
import uuid

import pytest

from penstock.kafka.client.positions import Position, PositionTask
from penstock.kafka.client.protocol.write_errors import WriteError
from penstock.kafka.client.writing.decisions import (
    BatchId,
    Decision,
    Decisions,
    TooManyTasksError,
    is_first_attempt,
)
from penstock.kafka.client.writing.prepared import Prepared
from tests.kafka.client.scripted import ScriptedConnection

TASK = PositionTask("job", "out", uuid.UUID(int=5), 0)
RUN = str(uuid.UUID(int=2**128 - 1))
BATCH = BatchId(RUN, 3)


@pytest.fixture
def decisions():
    return Decisions(ScriptedConnection(), TASK)


def prepared(decisions, count, turn=4):
    draw = random.Random(count)
    return tuple(
        Prepared(
            decisions.transactional_id(turn, number, number % 3),
            7000 + draw.randrange(5000),
            draw.randrange(9),
        )
        for number in range(count)
    )


@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_decision_of_many_tasks_can_be_read_again(decisions, count):
    decision = Decision(RUN, ("before", "earlier"), BATCH, prepared(decisions, count), 5)
    text = decisions._encoded(decision)
    assert text.offset == 4
    assert decisions._decoded(Position(4, text.metadata)) == decision


def test_too_many_tasks_are_refused_before_a_broker_refuses_them(decisions):
    decision = Decision(RUN, tuple([RUN] * 20), BATCH, prepared(decisions, 1500), 5)
    with pytest.raises(TooManyTasksError, match="1500 tasks"):
        decisions._encoded(decision)


def test_an_offset_of_another_program_is_an_error(decisions):
    with pytest.raises(WriteError, match="name another job"):
        decisions._decoded(Position(4, "text"))


def test_no_offset_is_no_decision(decisions):
    assert decisions._decoded(None) == Decision()
    assert not Decision().covers(BATCH)


@pytest.mark.parametrize(("number", "is_covered"), [(2, True), (3, True), (4, False)])
def test_a_decision_covers_the_batches_of_its_query(number, is_covered):
    decision = Decision(batch=BATCH)
    assert decision.covers(BatchId(RUN, number)) is is_covered
    assert not decision.covers(BatchId("another", number))


def test_whose_transactions_a_decision_has(decisions):
    earlier, current = prepared(decisions, 2, turn=4), prepared(decisions, 2, turn=5)
    assert not Decision(turn=5).has_decided
    assert not Decision(prepared=earlier, turn=5).has_decided
    assert Decision(prepared=current, turn=5).has_decided
    assert [is_first_attempt(transaction) for transaction in current] == [True, False]


def test_attempts_of_a_claim_have_separate_ids_of_the_job(decisions):
    names = {
        decisions.transactional_id(turn, task, attempt)
        for turn in range(3) for task in range(3) for attempt in range(3)
    }  # fmt: skip
    assert len(names) == 27
    assert all(name.startswith("penstock-job:w:") for name in names)
