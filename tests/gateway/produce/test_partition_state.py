"""The states of a batch: which follow each other, also while Produce requests are handled."""

import itertools

import pytest
from structlog.testing import capture_logs

from penstock.gateway.produce import request as produce_request
from penstock.gateway.produce.partition import ProducePartition, ProduceTopic
from penstock.gateway.produce.partition_state import PartitionState
from penstock.kafka.wire.requests.produce import PartitionResponse, ProduceRequest
from tests.gateway.produce.produce_histories import History
from tests.raw import produce_request as frame_content
from tests.raw import request_frame

FOLLOWING = {
    "UNCHANGED": {"UNJUDGED", "PENDING", "JUDGED", "REPLACED", "ANSWERED"},
    "UNJUDGED": {"DECIDED", "SENT", "ANSWERED"},
    "PENDING": {"JUDGED", "DECIDED", "ANSWERED"},
    "JUDGED": {"DECIDED", "SENT", "ANSWERED"},
    "REPLACED": {"SENT", "ANSWERED"},
    "DECIDED": {"SENT", "DUE", "ANSWERED"},
    "SENT": {"ANSWERED"},
    "DUE": {"ANSWERED"},
    "ANSWERED": set(),
}
PAIRS = list(itertools.product(PartitionState, repeat=2))
LEGAL = [(state, after) for state, after in PAIRS if after.name in FOLLOWING[state.name]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def a_partition(state=PartitionState.UNCHANGED):
    request = ProduceRequest(request_frame(frame_content([("a", [(0, b"records")])]), 1))
    topic = ProduceTopic(request, 0, 0)
    partition = ProducePartition(topic, 0, topic.data.partitions[0])
    partition.state = state
    return partition


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_a_state_is_followed_by_those_of_the_table(before, after):
    partition = a_partition(before)
    partition.transition_to(after)
    assert partition.state is after


@pytest.mark.parametrize(("before", "after"), ILLEGAL)
def test_every_other_transition_is_an_error_that_changes_nothing(before, after):
    partition = a_partition(before)
    with pytest.raises(AssertionError, match=f"^{before.name} to {after.name}$"):
        partition.transition_to(after)
    assert partition.state is before


def test_each_state_can_be_reached_and_a_batch_can_be_answered_in_each():
    reached = {PartitionState.UNCHANGED}
    for _ in PartitionState:
        reached |= {after for before, after in LEGAL if before in reached}
    assert reached == set(PartitionState)
    for state in PartitionState:
        partition = a_partition(state)
        partition.answer(PartitionResponse(7))
        assert (partition.is_answered, partition.response) == (True, PartitionResponse(7))


def test_a_response_replaces_an_earlier_response():
    partition = a_partition()
    assert (partition.is_answered, partition.response) == (False, None)
    partition.answer(PartitionResponse(7))
    partition.answer(PartitionResponse(87))
    assert partition.response == PartitionResponse(87)


def test_a_batch_that_has_to_be_judged_is_never_sent_before():
    assert (PartitionState.PENDING, PartitionState.SENT) in ILLEGAL
    assert (PartitionState.ANSWERED, PartitionState.SENT) in ILLEGAL


@pytest.fixture
def transitions(monkeypatch):
    """The transitions of all batches."""

    class Watched(ProducePartition):
        __slots__ = ()

        def transition_to(self, state):
            taken.append((self.state, state))
            super().transition_to(state)

    taken = []
    monkeypatch.setattr(produce_request, "ProducePartition", Watched)
    return taken


def play(seeds):
    """Play histories; return the errors of the gateway."""
    with capture_logs() as lines:
        for seed in seeds:
            History(seed).play()
    return [line for line in lines if line["log_level"] == "error"]


def test_requests_of_all_kinds_take_legal_transitions_only(transitions):
    assert play(range(60)) == []
    assert set(transitions) <= set(LEGAL)
    assert len(set(transitions)) > len(LEGAL) / 2


@pytest.mark.thorough
def test_requests_take_all_transitions_of_the_table(transitions):
    assert play(range(500)) == []
    assert set(transitions) == set(LEGAL)
