"""Requests about transactions, with responses of brokers and invalid bytes."""

import datetime
import struct

import pytest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.static.primitive import i32Timedelta

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.transactions import (
    ProducerIdAndEpoch,
    TransactionState,
    describe_request,
    described,
    next_epoch,
    next_epoch_request,
)
from tests.kafka.wire.descriptions import description, framed
from tests.raw import request_frame

EMPTY = TransactionState(0, "Empty", ProducerIdAndEpoch(17, 3), 60_000)


def test_a_state_without_a_start_time_is_read():
    assert described(description()) == EMPTY


def test_a_state_with_partitions_is_read():
    topics = b"\x02\x02a" + b"\x02" + bytes(4) + b"\x00"
    found = described(description(state="Ongoing", start=1_700_000_000_000, topics=topics))
    assert found == EMPTY._replace(state="Ongoing")


def test_an_error_code_is_read():
    assert described(description(code=16, state="")).code == 16


@pytest.mark.parametrize("size", range(8, len(description()) - 3))
def test_a_truncated_response_is_an_error(size):
    with pytest.raises(WireError, match="DescribeTransactions"):
        described(description()[:size])


@pytest.mark.parametrize("count", [b"\x00", b"\x01"])
def test_a_response_without_a_state_is_an_error(count):
    with pytest.raises(WireError, match="DescribeTransactions"):
        described(framed(b"\x00" + bytes(4) + count + b"\x00"))


def test_the_requests_are_those_of_the_protocol_library():
    describe = DescribeTransactionsRequest(transactional_ids=("t",))
    assert describe_request(5, transactional_id="t", client_id="c") == request_frame(
        describe, 5, "c"
    )
    begin = InitProducerIdRequest(
        transactional_id="t",
        transaction_timeout=i32Timedelta.parse(datetime.timedelta(minutes=1)),
        producer_id=17,
        producer_epoch=3,
    )
    assert next_epoch_request(
        6,
        transactional_id="t",
        producer=ProducerIdAndEpoch(17, 3),
        timeout_ms=60_000,
        client_id=None,
    ) == request_frame(begin, 6, None)


def test_the_next_epoch_is_read():
    body = b"\x00" + bytes(4) + struct.pack(">hqh", 0, 17, 4) + b"\x00"
    assert next_epoch(framed(body)) == (0, ProducerIdAndEpoch(17, 4))
    with pytest.raises(WireError, match="InitProducerId"):
        next_epoch(framed(body[:-4]))
