"""Fetch requests byte for byte, and responses, against the protocol library."""

import datetime
import uuid

import pytest
from kio.schema.fetch.v12 import request as v12
from kio.schema.fetch.v13 import request as v13
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from penstock.kafka.client.protocol.fetch import (
    AbortedTransaction,
    FetchPosition,
    fetch_request,
    read_fetch,
)
from penstock.kafka.client.protocol.raw_requests import RawResponse, raw_request
from penstock.kafka.wire.errors import WireError
from tests.kafka.client.stored import batch, fetched

ID = uuid.UUID(int=2**127 + 5)


@pytest.mark.parametrize("topic", ["t", "a" * 249, ID])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("rack", ["", "east", "r" * 200])
def test_the_bytes_of_a_request(topic, committed, rack):
    module = v12 if isinstance(topic, str) else v13
    named = {"topic": TopicName(topic)} if module is v12 else {"topic_id": topic}
    partition = module.FetchPartition(
        partition=i32(7),
        current_leader_epoch=i32(3),
        fetch_offset=i64(2**40),
        partition_max_bytes=i32(2**20),
    )
    wanted = module.FetchRequest(
        max_wait=i32Timedelta.parse(datetime.timedelta(milliseconds=500)),
        min_bytes=i32(1),
        max_bytes=i32(2**20),
        isolation_level=i8(int(committed)),
        topics=(module.FetchTopic(partitions=(partition,), **named),),
        forgotten_topics_data=(),
        rack_id=rack,
    )
    found = fetch_request(FetchPosition(topic, 7, 2**40, 3, 2**20, 500, committed, rack))
    assert found == raw_request(wanted)


@pytest.mark.parametrize(("version", "topic"), [(12, "t"), (12, "x" * 200), (13, ID)])
def test_a_response(version, topic):
    records = batch(5, 3)
    response = fetched(
        records, version=version, topic=topic, high_watermark=9, stable=8,
        aborted=[(4, 2), (5, 3)], replica=6, throttle_ms=1500,
    )  # fmt: skip
    found = read_fetch(response, version)
    assert found._replace(records=bytes(found.records)) == (
        1.5, 0, False, 9, 8, (AbortedTransaction(4, 2), AbortedTransaction(5, 3)), 6, records,
    )  # fmt: skip
    assert found.records.obj is response.frame


def test_no_aborted_transactions_and_no_records():
    found = read_fetch(fetched(aborted=None, code=6), 12)
    assert (found.code, found.aborted_transactions, bytes(found.records)) == (6, (), b"")


def test_a_throttled_response_has_no_partition():
    found = read_fetch(fetched(is_empty=True, throttle_ms=20), 12)
    assert (found.is_empty, found.throttle_s, found.code) == (True, 0.02, 0)


def test_an_error_of_the_whole_request():
    found = read_fetch(fetched(is_empty=True, outer=100), 13)
    assert (found.is_empty, found.code) == (True, 100)


def test_a_response_that_is_cut_off():
    frame = fetched(batch(0), aborted=[(1, 0)], version=12).frame
    # The last three bytes are empty sections of tags, which nothing is read from.
    for length in range(len(frame) - 3):
        with pytest.raises(WireError, match="a FetchResponse that cannot be read"):
            read_fetch(RawResponse(frame[:length]), 12)
