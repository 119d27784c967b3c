"""Short entries: each costs time and memory, however few bytes it has."""

import datetime

import pytest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.static.primitive import i8, i32Timedelta

from penstock.engine.verdict import RecordError, refused_records
from penstock.engine.workers import messages
from penstock.wire.client_requests import read_request
from penstock.wire.errors import WireError
from penstock.wire.frames import FrameReader
from penstock.wire.produce import ENTRIES_MAX
from penstock.wire.produce import read_request as read_produce
from tests.raw import produce_request, request_frame


def partitions(count):
    return request_frame(produce_request([("t", [(n, None) for n in range(count)])]), 1)


def topics(count):
    return request_frame(produce_request([("", [])] * count), 1)


@pytest.mark.thorough
@pytest.mark.parametrize("of", [partitions, topics])
def test_a_produce_request_names_so_many_topics_and_partitions(of):
    assert read_produce(of(1_000)).entries >= 1_000
    with pytest.raises(WireError, match="more than 50000 topics and partitions"):
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
def test_a_request_about_topics_has_so_many_entries(request_):
    with pytest.raises(WireError, match="too many entries"):
        read_request(request_frame(request_, 1))


@pytest.mark.thorough
def test_so_many_records_are_named():
    errors = [RecordError(index, "bad", "P") for index in range(500_000)]
    verdict = refused_records(errors)
    assert len(verdict.record_errors) == 500_000
    sent = messages.verdict(1, verdict)
    _, told = messages.read_verdict(sent[messages.PREFIX.size :])
    assert told.record_errors == verdict.record_errors[: messages.RECORD_ERRORS_MAX]
    assert "due to 500000 record errors" in str(told.message)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 100, 5_000, 300_000])
def test_what_is_held_of_a_frame_is_what_is_counted(size):
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
    assert len(reader._held) <= 200
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
    assert [type(part) for part in reader._held] == [bytes]
