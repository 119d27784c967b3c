"""Responses about transactions, with and without a start time."""

import datetime

import pytest

from penstock.kafka.wire.own_requests import read_response
from penstock.kafka.wire.schemas.described_transactions import DescribeTransactionsResponse
from tests.kafka.wire.descriptions import description

TOPICS = b"\x02\x02a" + b"\x03" + bytes(4) + (7).to_bytes(4, "big") + b"\x00"
BEGAN = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)


def states(**fields):
    return read_response(description(**fields), DescribeTransactionsResponse).transaction_states


@pytest.mark.parametrize("state", ["Empty", "CompleteAbort"])
def test_without_an_open_transaction_there_is_no_start_time(state):
    (found,) = states(state=state)
    assert found.transaction_start_time is None
    assert (found.transaction_state, found.producer_id, found.producer_epoch) == (state, 17, 3)


def test_an_open_transaction():
    (found,) = states(state="Ongoing", start=1_700_000_000_000, topics=TOPICS)
    assert found.transaction_start_time == BEGAN
    assert found.transaction_timeout == datetime.timedelta(minutes=1)
    assert [(str(topic.topic), topic.partitions) for topic in found.topics] == [("a", (0, 7))]
