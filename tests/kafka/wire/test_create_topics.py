"""CreateTopics requests and responses, topic by topic, compared with the protocol library."""

import datetime
import io
import uuid

import pytest
from kio.schema.create_topics.v7 import request as v7
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i16, i32, i32Timedelta

import penstock.kafka.wire.requests.create_topics as wire
from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.entities import write_entity
from penstock.kafka.wire.schemas import load_response_schema
from penstock.kafka.wire.slices import finish
from tests.raw import parse_response

SECOND = i32Timedelta.parse(datetime.timedelta(seconds=1))
NAMES = ("a", "b", "c")


def result(types, version, name):
    fields = {"name": TopicName(name), "error_code": ErrorCode(0), "error_message": name}
    if version >= 5:
        config = types.CreatableTopicConfigs(
            name="k", value=name, read_only=False, config_source=i8(5), is_sensitive=False
        )
        fields |= {
            "num_partitions": i32(3),
            "replication_factor": i16(1),
            "configs": (config,),
        }
    if version >= 7:
        fields["topic_id"] = uuid.uuid4()
    return types.CreatableTopicResult(**fields)


def answer(version, correlation_id=7):
    kind = load_response_schema(19, version)
    types = __import__(kind.__module__, fromlist=["x"])
    topics = tuple(result(types, version, name) for name in NAMES)
    body = io.BytesIO()
    entity_writer(kind)(body, kind(throttle_time=SECOND, topics=topics))
    data = correlation_id.to_bytes(4, "big") + b"\0" * kind.__flexible__ + body.getvalue()
    return kind, len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("version", range(2, 8))
def test_results_are_read_and_written_as_by_the_protocol_library(version):
    kind, frame = answer(version)
    results = wire.Results(frame, kind)
    read = list(results)
    assert [result.entity for result in read] == list(parse_response(frame, 19, version).topics)
    written = wire.response(
        7, kind, throttle_time=results.throttle_time, results=[result.data for result in read]
    )
    assert written == frame
    assert [write_entity(result.entity) for result in read] == [result.data for result in read]


@pytest.mark.parametrize("version", [2, 7])
def test_a_truncated_response_is_an_error(version):
    kind, frame = answer(version)
    end = len(frame) - kind.__flexible__
    for size in range(9, end):
        with pytest.raises(WireError):
            list(wire.Results(frame[:size], kind))


def test_a_request_equals_that_of_the_protocol_library():
    topics = tuple(
        v7.CreatableTopic(
            name=TopicName(f"t{n}"),
            num_partitions=i32(n),
            replication_factor=i16(1),
            assignments=(),
            configs=(),
        )
        for n in range(200)
    )
    frame = wire.request(
        7,
        topics=[write_entity(topic) for topic in topics],
        timeout=SECOND,
        validate_only=True,
        client_id="me",
    )
    read = read_request(frame)
    assert (read.correlation_id, read.client_id) == (7, "me")
    assert finish(read.read_body()) == v7.CreateTopicsRequest(
        topics=topics, timeout=SECOND, validate_only=True
    )
