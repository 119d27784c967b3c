"""Requests to coordinators, repeated if the response may change later."""

import pytest
from kio.schema.errors import ErrorCode

from penstock.kafka.client.connections.transaction_coordinator import TransactionCoordinator
from penstock.kafka.client.errors import ResponseError
from tests.kafka.client.scripted import END, INIT, ScriptedConnection

ID = "penstock-j:x:0"
UNKNOWN = int(ErrorCode.unknown_server_error)


@pytest.fixture
def broker():
    return ScriptedConnection(api_timeout_s=30.0)


@pytest.fixture
def coordinator(broker):
    return TransactionCoordinator(broker, ID, 60.0)


def test_a_request_without_a_definite_response_is_retried(broker, coordinator):
    """As while another writer takes over the transaction that is to be ended."""
    producer = coordinator.new_producer()
    broker.script[END] = [UNKNOWN, UNKNOWN]
    coordinator.end(producer, commit=True)
    assert broker.ended == [True]
    assert [api for api, _ in broker.sent_requests].count(END) == 3
    assert coordinator.is_unsure, "the coordinator may still process a request"


def test_another_refusal_is_final(broker, coordinator):
    broker.script[INIT] = [int(ErrorCode.invalid_transaction_timeout)]
    with pytest.raises(ResponseError, match="INVALID_TRANSACTION_TIMEOUT"):
        coordinator.new_producer()
    assert [api for api, _ in broker.sent_requests] == [INIT]
    assert not coordinator.is_unsure
