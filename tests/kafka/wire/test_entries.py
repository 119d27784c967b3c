"""Short entries: each needs time and memory, however few bytes it has."""

import datetime
import sys

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.static.primitive import i8, i32Timedelta

from penstock.engine.verdict import RecordError, refused_records
from penstock.engine.workers import messages
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.frames import FrameReader
from penstock.kafka.wire.primitives import TAGGED_FIELDS_MAX, skip_tags, varint
from penstock.kafka.wire.requests.produce import ENTRIES_MAX, read_acks
from penstock.kafka.wire.requests.produce import read_request as read_produce
from penstock.kafka.wire.slices import finish
from tests.raw import produce_request, request_frame


def partitions(count):
    return request_frame(produce_request([("t", [(n, None) for n in range(count)])]), 1)


def topics(count):
    return request_frame(produce_request([("", [])] * count), 1)


@pytest.mark.thorough
@pytest.mark.parametrize("of", [partitions, topics])
def test_the_number_of_topics_and_partitions_of_a_produce_request_is_limited(of):
    assert read_produce(of(1_000)).entries >= 1_000
    with pytest.raises(WireError, match="more than 50000 topics, partitions and tagged fields"):
        read_produce(of(ENTRIES_MAX + 1))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "request_",
    [
        DeleteTopicsRequest(
            topic_names=("",) * (ENTRIES_MAX + 1),
            timeout=i32Timedelta.parse(datetime.timedelta(0)),
        ),
        DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=i8(2), resource_name="", configuration_keys=("",) * 1_000
                )
                for _ in range(60)
            ),
            include_synonyms=False,
            include_documentation=False,
        ),
    ],
    ids=["names", "in all"],
)
def test_the_number_of_entries_of_a_request_about_topics_is_limited(request_):
    with pytest.raises(WireError, match="too many entries"):
        finish(read_request(request_frame(request_, 1)).read_body())


@pytest.mark.thorough
def test_the_number_of_record_errors_in_a_verdict_is_limited():
    errors = [RecordError(index, "bad", "P") for index in range(500_000)]
    verdict = refused_records(errors)
    assert len(verdict.record_errors) == 500_000
    sent = messages.verdict(1, verdict)
    _, decoded, _ = messages.read_verdict(sent[messages.PREFIX.size :])
    assert decoded.record_errors == verdict.record_errors[: messages.RECORD_ERRORS_MAX]
    assert "due to 500000 record errors" in str(decoded.message)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 100, 5_000, 300_000])
def test_the_held_memory_of_a_frame_is_counted(size):
    frames = []
    reader = FrameReader(
        head_bytes=8,
        max_bytes=10**7,
        on_head=lambda _: True,
        on_frame=frames.append,
        on_piece=lambda *_: None,
    )
    frame = (400_000).to_bytes(4, "big") + bytes(range(256)) * 1562 + bytes(128)
    for start in range(0, len(frame) - 1, size):
        reader.feed(frame[start : min(start + size, len(frame) - 1)])
    assert reader.held_bytes == len(frame) - 1
    assert sys.getsizeof(reader._partial_frame) < 1.2 * reader.held_bytes
    reader.feed(frame[-1:])
    assert frames == [frame]


def test_a_small_part_does_not_keep_its_chunk():
    reader = FrameReader(
        head_bytes=8,
        max_bytes=10**7,
        on_head=lambda head: head[7] == 1,
        on_frame=lambda _: None,
        on_piece=lambda *_: None,
    )
    streamed = (200_000).to_bytes(4, "big") + bytes(200_000)
    reader.feed(streamed + (10_000).to_bytes(4, "big") + bytes([0, 0, 0, 1]) + bytes(6_000))
    assert sys.getsizeof(reader._partial_frame) < 10_000


def tags(count):
    return varint(count) + bytes(2 * count)


def framed(frame, *, at, count):
    """Return a frame with inserted tagged fields."""
    assert not frame[at]
    body = frame[4:at] + tags(count) + frame[at + 1 :]
    return len(body).to_bytes(4, "big") + body


HEADER_TAGS_AT = 4 + 2 + 2 + 4 + 2 + len("raw")


def test_the_number_of_tagged_fields_of_a_structure_is_limited():
    assert skip_tags(tags(TAGGED_FIELDS_MAX), 0) == len(tags(TAGGED_FIELDS_MAX))
    with pytest.raises(WireError, match="more than 1000 tagged fields"):
        skip_tags(tags(10_000_000), 0)
    delete = DeleteTopicsRequest(topic_names=(), timeout=i32Timedelta.parse(datetime.timedelta(0)))
    frame = request_frame(delete, 1)
    with pytest.raises(WireError, match="more than 1000 tagged fields"):
        body = read_request(framed(frame, at=len(frame) - 1, count=TAGGED_FIELDS_MAX + 1))
        finish(body.read_body())
    with pytest.raises(WireError):
        read_request(framed(frame, at=HEADER_TAGS_AT, count=TAGGED_FIELDS_MAX + 1))


def test_the_number_of_tagged_fields_of_a_request_header_is_limited():
    """Otherwise 20 MiB of tagged fields were read again with each piece."""
    frame = request_frame(produce_request([], version=9), 1)
    assert read_acks(framed(frame, at=HEADER_TAGS_AT, count=TAGGED_FIELDS_MAX)) == -1
    with pytest.raises(WireError, match="more than 1000 tagged fields"):
        read_acks(framed(frame, at=HEADER_TAGS_AT, count=TAGGED_FIELDS_MAX + 1)[:100])


def test_all_tagged_fields_of_a_produce_request_count():
    partitions, each = 100, 600
    frame = request_frame(
        produce_request([("t", [(n, None) for n in range(partitions)])], version=9), 1
    )
    # Each partition is a number, a null for records, and no tagged fields.
    plain = bytes(1) + bytes(1)
    start = frame.index(varint(partitions + 1), HEADER_TAGS_AT + 8) + 1
    entries = b"".join(n.to_bytes(4, "big") + b"\0" + tags(each) for n in range(partitions))
    assert frame[start + 4 : start + 6] == plain
    body = frame[4:start] + entries + frame[start + 6 * partitions :]
    with pytest.raises(WireError, match="more than 50000 topics, partitions and tagged fields"):
        read_produce(len(body).to_bytes(4, "big") + body)
