"""Produce requests and responses, against the protocol library."""

import datetime as dt

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9 import request as requests
from kio.schema.produce.v9 import response as responses
from kio.schema.types import TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from penstock.kafka.client.protocol.produce import (
    ProduceResult,
    answer_of,
    read_response,
    write_request,
)
from penstock.kafka.client.protocol.raw_requests import RawResponse, raw_request
from penstock.kafka.wire.errors import WireError
from tests.kafka.client.frames import response_frame


@pytest.mark.parametrize("transactional_id", [None, "", "penstock-job:AAAA:3", "ü" * 100])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 16_384, 1 << 21])
def test_a_request_equals_that_of_the_library(transactional_id, size):
    batch = bytes(size)
    name = TopicName("bestellungen-ä")
    topics = tuple(
        requests.TopicProduceData(
            name=TopicName(topic),
            partition_data=tuple(
                requests.PartitionProduceData(index=i32(number), records=Records(batch))
                for number in numbers
            ),
        )
        for topic, numbers in ((name, (70_000, 3)), ("dead", (0,)))
    )
    entity = requests.ProduceRequest(
        transactional_id=None if transactional_id is None else TransactionalId(transactional_id),
        acks=i16(-1),
        timeout=i32Timedelta.parse(dt.timedelta(seconds=30)),
        topic_data=topics,
    )
    parts = (batch[:61], memoryview(batch)[61:])
    places = ((name, 70_000), ("dead", 0), (name, 3))
    written = write_request(transactional_id, 30.0, dict.fromkeys(places, parts))
    assert written == raw_request(entity)


def response(code=0, message=None, errors=(), offset=12):
    partition = responses.PartitionProduceResponse(
        index=i32(3),
        error_code=ErrorCode(code),
        base_offset=i64(offset),
        log_append_time=None,
        record_errors=tuple(
            responses.BatchIndexAndErrorMessage(batch_index=i32(i), batch_index_error_message=text)
            for i, text in enumerate(errors)
        ),
        error_message=message,
    )
    topic = responses.TopicProduceResponse(
        name=TopicName("orders"), partition_responses=(partition,)
    )
    return response_frame(responses.ProduceResponse(responses=(topic,)))


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (response(), ProduceResult(0, 12, "")),
        (response(offset=2**60), ProduceResult(0, 2**60, "")),
        (response(10, offset=-1), ProduceResult(10, -1, "")),
        (response(87, "no key", offset=-1), ProduceResult(87, -1, "no key")),
        (response(87, None, [None, "no key"], -1), ProduceResult(87, -1, "no key", (0, 1))),
        (
            response(87, "kürzer", ["no key", "x" * 300], -1),
            ProduceResult(87, -1, "kürzer", (0, 1)),
        ),
    ],
)
def test_a_response_is_read(frame, answer):
    assert read_response(RawResponse(frame)) == {("orders", 3): answer}


def test_a_response_that_ends_early():
    frame = response(87, "no key", ["no value"], -1)
    end = frame.index(b"no key") + len(b"no key")
    for size in range(end):
        with pytest.raises(WireError):
            read_response(RawResponse(frame[:size]))


def test_a_response_about_several_partitions():
    def topic(name, *numbers):
        return responses.TopicProduceResponse(
            name=TopicName(name),
            partition_responses=tuple(
                responses.PartitionProduceResponse(
                    index=i32(number), error_code=ErrorCode(87 if number else 0),
                    base_offset=i64(number), log_append_time=None, record_errors=(),
                    error_message="no key" if number else None,
                )
                for number in numbers
            ),
        )  # fmt: skip

    frame = response_frame(responses.ProduceResponse(responses=(topic("a", 0, 7), topic("b", 1))))
    assert read_response(RawResponse(frame)) == {
        ("a", 0): ProduceResult(0, 0, ""),
        ("a", 7): ProduceResult(87, 7, "no key"),
        ("b", 1): ProduceResult(87, 1, "no key"),
    }


def test_a_response_about_another_partition():
    empty = response_frame(responses.ProduceResponse(responses=()))
    with pytest.raises(WireError):
        answer_of(read_response(RawResponse(empty)), ("orders", 3))
