"""Produce requests, spliced, compared with the protocol library (kio)."""

import re
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.produce import (
    PartitionResponse,
    ProduceRequest,
    RequestReader,
    read_acks,
    read_in_slices,
    read_request,
)
from penstock.kafka.wire.requests.produce_response import write_response
from tests.raw import parse_response, produce_request, produced, request_frame

VERSIONS = range(3, 14)


def topics_for(version: int):
    key = st.uuids() if version >= 13 else st.text(min_size=1, max_size=5)
    partition = st.tuples(st.integers(0, 99), st.none() | st.binary(max_size=30))
    partitions = st.lists(partition, max_size=4, unique_by=lambda p: p[0])
    return st.lists(st.tuples(key, partitions), max_size=4, unique_by=lambda t: t[0])


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.data())
def test_a_request_is_read_and_any_partition_removed(data):
    version = data.draw(st.sampled_from(VERSIONS))
    topics = data.draw(topics_for(version))
    acks = data.draw(st.sampled_from([-1, 0, 1]))
    transactional_id = data.draw(st.none() | st.text(max_size=5))
    client_id = data.draw(st.none() | st.text(max_size=5))
    request = produce_request(topics, version=version, acks=acks, transactional_id=transactional_id)
    frame = request_frame(request, 7, client_id)

    read = ProduceRequest(frame)

    assert (read.version, read.acks, read.correlation_id) == (version, acks, 7)
    assert read.client_id == client_id
    assert read_acks(frame) == acks
    assert [
        (t.topic_id if version >= 13 else t.name,
         [(p.number, bytes(read.records(p)) or None) for p in t.partitions])
        for t in read.topics
    ] == [(t, [(i, r or None) for i, r in ps]) for t, ps in topics]  # fmt: skip

    places = [(t, p) for t, (_, ps) in enumerate(topics) for p in range(len(ps))]
    refused = set(data.draw(st.lists(st.sampled_from(places), unique=True))) if places else set()
    kept = [
        (topic, [partition for p, partition in enumerate(partitions) if (t, p) not in refused])
        for t, (topic, partitions) in enumerate(topics)
    ]
    kept = [(topic, partitions) for topic, partitions in kept if partitions]
    expected = produce_request(kept, version=version, acks=acks, transactional_id=transactional_id)
    rest = b"".join(read.rewrite(refused, {}))
    assert rest == (request_frame(expected, 7, client_id) if kept else b"")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_an_error(version):
    key = uuid.UUID(int=5) if version >= 13 else "topic"
    frame = request_frame(produce_request([(key, [(0, b"abc"), (1, b"d")])], version=version), 7)
    for end in range(14, len(frame)):
        with pytest.raises(WireError):
            ProduceRequest(frame[:end])
    with pytest.raises(WireError):
        ProduceRequest(frame + b"\0")
    assert [read_acks(frame[:end]) for end in (12, len(frame))] == [None, -1]


# The requests of one connection

one_batch = st.builds(
    lambda version, topic, number, records, acks, client_id: request_frame(
        produce_request(
            [(uuid.UUID(int=len(topic)) if version >= 13 else topic, [(number, records)])],
            version=version,
            acks=acks,
        ),
        len(records or b""),
        client_id,
    ),
    st.sampled_from([3, 8, 9, 12, 13]),
    st.sampled_from(["a", "b", "long"]),
    st.integers(0, 3),
    st.none() | st.binary(max_size=300),
    st.sampled_from([0, 1]),
    st.sampled_from([None, "c", "client"]),
)
FIELDS = (*ProduceRequest.__slots__,)


def fields(request):
    return {
        name: [
            (*topic[:3], [tuple(partition) for partition in topic.partitions], topic.tail)
            for topic in value
        ]
        if name == "topics"
        else value
        for name, value in ((name, getattr(request, name)) for name in FIELDS)
    }


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.lists(one_batch, min_size=1, max_size=6), st.data())
def test_a_request_like_the_earlier_request_is_read_like_any_other(frames, data):
    reader = RequestReader()
    for frame in frames:
        for sent in (frame, data.draw(damaged(frame)), frame):
            try:
                expected = fields(read_request(sent))
            except WireError as error:
                with pytest.raises(WireError, match=re.escape(str(error))):
                    reader.read(sent)
            else:
                assert fields(reader.read(sent)) == expected


@st.composite
def damaged(draw, frame):
    """Return the frame with another byte, a byte less, or more bytes."""
    at = draw(st.integers(12, len(frame) - 1))
    return draw(
        st.sampled_from(
            [
                frame[:at] + bytes([draw(st.integers(0, 255))]) + frame[at + 1 :],
                frame[:at] + frame[at + 1 :],
                frame[:at] + b"\0\x05" + frame[at:],
            ]
        )
    )


def test_a_long_request_header_is_not_cached():
    reader = RequestReader()
    frame = request_frame(produce_request([("t", [(0, b"x")])], version=9, acks=1), 1, "c" * 5000)
    assert reader.read(frame).client_id == "c" * 5000
    assert reader._shape is None


def slices(work):
    """Return the result of work in slices, and the number of slices."""
    count = 1
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize(
    ("topics", "entries"),
    [
        ([(f"t{n}", [(0, b"x")]) for n in range(5_000)], 5_000),
        ([("t", [(n, b"x") for n in range(5_000)])], 5_000),
        ([("t", [(n % 100, b"x") for n in range(5_000)])], 100),
        ([(f"t{n % 50}", [(n % 2, b"x")]) for n in range(5_000)], 50),
    ],
    ids=["topics", "partitions", "the same partitions", "the same topics"],
)
def test_many_entries_are_read_and_their_responses_written_in_slices(topics, entries):
    """Reading 24,000 topics took 0.2 s of the event loop, and the response 0.1 s."""
    frame = request_frame(produce_request(topics), 7)
    request, count = slices(read_in_slices(frame))
    assert 10 <= count <= 40, "a slice is 500 entries: topics, and partitions"
    places = [
        (t, i) for t, topic in enumerate(request.topics) for i in range(len(topic.partitions))
    ]
    assert len(places) == entries
    assert read_request(frame).topics == request.topics
    refusals = dict.fromkeys(places, PartitionResponse(87, "why"))
    parts, count = slices(write_response(request, refusals, None))
    assert entries // 500 <= count <= entries // 500 + 1
    assert len(produced(parse_response(b"".join(parts), 0, 9))) == entries
