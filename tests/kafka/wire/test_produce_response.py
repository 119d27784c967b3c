"""Produce responses, merged and spliced, compared with the protocol library (kio)."""

import io
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from penstock.kafka.wire.addresses import replace_in_slices
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.produce import PartitionResponse, ProduceRequest
from penstock.kafka.wire.requests.produce_response import (
    ProduceResponse,
    names_no_leaders,
    write_response,
)
from penstock.kafka.wire.schemas import load_response_schema
from penstock.kafka.wire.slices import finish
from tests.gateway.admin.talk import broker_frame
from tests.raw import parse_response, produce_request, produced, request_frame

VERSIONS = range(3, 14)


def broker_response(version: int, topics) -> bytes:
    """Return a broker's response, written by kio; base offsets identify the partitions."""
    schema = load_response_schema(0, version)
    module = __import__(schema.__module__, fromlist=["x"])
    key = "topic_id" if version >= 13 else "name"
    error_fields = {"record_errors": ()} if version >= 8 else {}
    response = schema(
        responses=tuple(
            module.TopicProduceResponse(
                **{key: topic},
                partition_responses=tuple(
                    module.PartitionProduceResponse(
                        index=index,
                        error_code=ErrorCode(0),
                        base_offset=100 + index,
                        **error_fields,
                    )
                    for index in reversed(indices)
                ),
            )
            for topic, indices in reversed(topics)
        )
    )
    buffer = io.BytesIO()
    header = schema.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=7))
    entity_writer(schema)(buffer, response)
    body = buffer.getvalue()
    return len(body).to_bytes(4, "big") + body


@pytest.mark.kips("B38")
@pytest.mark.parametrize("version", VERSIONS)
def test_refusals_are_merged_once_in_the_order_of_the_request(version):
    names = [uuid.UUID(int=i) for i in (1, 2, 3)] if version >= 13 else ["a", "b", "c"]
    first, second, third = names
    request = ProduceRequest(
        request_frame(
            produce_request(
                [(first, [(3, b"x"), (1, b"y")]), (second, [(0, b"z")]), (third, [(0, b"")])],
                version=version,
            ),
            7,
        )
    )
    refusals = {
        (0, 1): PartitionResponse(87, "why", [(0, "first"), (4, None)]),
        (2, 0): PartitionResponse(-1, "x" * 300),
    }
    broker = broker_response(version, [(first, [3]), (second, [0])])

    merged = parse_response(
        b"".join(finish(write_response(request, refusals, ProduceResponse(broker, version)))),
        0,
        version,
    )
    alone = parse_response(b"".join(finish(write_response(request, refusals, None))), 0, version)

    answers = produced(merged)
    assert list(answers) == [(first, 3), (first, 1), (second, 0), (third, 0)]
    assert [a.error_code for a in answers.values()] == [0, 87, 0, -1]
    assert [a.base_offset for a in answers.values()] == [103, -1, 100, -1]
    assert list(produced(alone)) == [(first, 1), (third, 0)]
    if version >= 8:
        refused = answers[first, 1]
        assert refused.error_message == "why"
        assert [(e.batch_index, e.batch_index_error_message) for e in refused.record_errors] == [
            (0, "first"), (4, None),
        ]  # fmt: skip


def test_an_unreadable_response_is_an_error():
    broker = broker_response(9, [("a", [0])])
    for end in range(9, len(broker)):
        with pytest.raises(WireError):
            ProduceResponse(broker[:end], 9)


def with_errors(version: int, errors):
    """A response about partition 3 with record errors, and partition 1 without."""
    fields = {
        "responses": [
            {
                "topic_id" if version >= 13 else "name": names_of(version, 1)[0],
                "partition_responses": [
                    {"index": 1, "error_code": 0, "base_offset": 5, "log_append_time": None},
                    {
                        "index": 3,
                        "error_code": 87,
                        "base_offset": 500,
                        "log_start_offset": 40,
                        "error_message": "two records are bad",
                        "record_errors": [
                            {"batch_index": index, "batch_index_error_message": text}
                            for index, text in errors
                        ],
                    },
                ],
            }
        ]
    }
    return broker_frame(0, version, 7, **fields)


@pytest.mark.parametrize("version", VERSIONS)
def test_record_errors_have_the_positions_of_the_clients_batch(version):
    (name,) = names_of(version, 1)
    request = ProduceRequest(
        request_frame(produce_request([(name, [(1, b"x"), (3, b"y")])], version=version), 7)
    )
    (topic,) = request.topics
    response = ProduceResponse(with_errors(version, [(0, "first"), (2, None)]), version)
    assert response.partition_response(topic.key, 2) is None
    found = response.partition_response(topic.key, 3)
    assert found == PartitionResponse(
        87, None, (), 500, found.log_append_time, 40 if version >= 5 else -1
    )

    response.move_record_errors(topic.key, 3, [4, 6, 9])
    assert response.is_changed is (version >= 8)
    response.replace_error(topic.key, 1, 59, 12)
    assert response.is_changed
    response.replace_base_offset(topic.key, 3, -2)
    merged = produced(
        parse_response(b"".join(finish(write_response(request, {}, response))), 0, version)
    )
    assert [(key, partition.error_code) for key, partition in merged.items()] == [
        ((name, 1), 59),
        ((name, 3), 87),
    ]
    assert merged[name, 3].base_offset == -2
    if version >= 5:
        assert [partition.log_start_offset for partition in merged.values()] == [12, 40]
    if version >= 8:
        errors = merged[name, 3].record_errors
        assert [(found.batch_index, found.batch_index_error_message) for found in errors] == [
            (4, "first"),
            (9, None),
        ]
        assert merged[name, 3].error_message == "two records are bad"


@pytest.mark.parametrize("version", range(8, 14))
@pytest.mark.parametrize("index", [-1, 2])
def test_a_record_error_for_a_record_that_was_not_sent_is_an_error(version, index):
    (name,) = names_of(version, 1)
    request = ProduceRequest(
        request_frame(produce_request([(name, [(3, b"y")])], version=version), 7)
    )
    response = ProduceResponse(with_errors(version, [(index, None)]), version)
    with pytest.raises(WireError, match="a record that was not sent"):
        response.move_record_errors(request.topics[0].key, 3, [4, 6])


def names_of(version: int, count: int):
    return [uuid.UUID(int=i) if version >= 13 else "t" * (i * 90) for i in range(1, count + 1)]


@pytest.mark.parametrize("version", range(9, 14))
@pytest.mark.parametrize("partitions", [[], [[]], [[3]], [[1, 2], [0]], [list(range(200))]])
def test_a_response_without_texts_or_tagged_fields_has_no_leaders(version, partitions):
    topics = list(zip(names_of(version, len(partitions)), partitions, strict=True))
    assert names_no_leaders(broker_response(version, topics), version)


@pytest.mark.parametrize("version", range(9, 14))
def test_any_other_response_may_have_leaders(version):
    (first,) = names_of(version, 1)
    plain = broker_response(version, [(first, [3, 4])])
    for end in range(9, len(plain)):
        assert not names_no_leaders(plain[:end], version)
    assert not names_no_leaders(plain + b"\0", version)
    with_tag = plain[:-1] + b"\x01\x00\x01\x00"
    assert not names_no_leaders(with_tag, version)
    text = {(0, 0): PartitionResponse(87, "why")}
    request = ProduceRequest(
        request_frame(produce_request([(first, [(3, b"x")])], version=version), 7)
    )
    assert not names_no_leaders(b"".join(finish(write_response(request, text, None))), version)


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.data())
def test_a_response_without_leaders_has_no_address(data):
    version = data.draw(st.sampled_from([10, 11, 12, 13]))
    plain = bytearray(broker_response(version, [(names_of(version, 1)[0], [3, 4])]))
    for _ in range(data.draw(st.integers(1, 4))):
        plain[data.draw(st.integers(8, len(plain) - 1))] = data.draw(st.integers(0, 255))
    plain += data.draw(st.binary(max_size=20))
    if names_no_leaders(bytes(plain), version):
        found = []
        finish(
            replace_in_slices(
                bytes(plain), 0, version, lambda *replaced: found.append(replaced) or replaced[1:]
            )
        )
        assert not found
