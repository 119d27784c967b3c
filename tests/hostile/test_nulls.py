"""Invalid nulls and numbers get the response of a broker (9)."""

import datetime

import pytest
from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.static.primitive import i8, i32, i32Timedelta

from tests.hostile.attack import codes, unexpected
from tests.hostile.conftest import POLICIES, PROPERTIES
from tests.hostile.innocent import BATCH, is_served
from tests.raw import RawClient, parse_response, produce_request, produced, request_frame

TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=5))
TOPIC_RESOURCE = i8(2)
REQUESTS = {
    "delete a topic without a name": DeleteTopicsRequest(
        topics=(DeleteTopicState(name=None, topic_id=None),), timeout=TIMEOUT
    ),
    "delete nothing": DeleteTopicsRequest(topics=(), timeout=TIMEOUT),
    "partitions of nothing": CreatePartitionsRequest(
        topics=(), timeout=TIMEOUT, validate_only=False
    ),
    "minus one partition": CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="t", count=i32(-1), assignments=None),),
        timeout=TIMEOUT, validate_only=False,
    ),
    "no such topic": CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="", count=i32(3), assignments=()),),
        timeout=TIMEOUT, validate_only=False,
    ),
    "configs of nothing": AlterConfigsRequest(resources=(), validate_only=False),
    "configs of a topic without a name": AlterConfigsRequest(
        resources=(AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name="", configs=()
        ),), validate_only=False,
    ),
}  # fmt: skip
ARRAYS = {
    # The position of the first array from the end of a request with nothing behind it, as it
    # was: the value there becomes null.
    "delete": (DeleteTopicsRequest(topics=(), timeout=TIMEOUT), b"\x01"),
    "create partitions": (
        CreatePartitionsRequest(topics=(), timeout=TIMEOUT, validate_only=False), b"\x01",
    ),
    "alter configs": (AlterConfigsRequest(resources=(), validate_only=False), b"\x01"),
}  # fmt: skip


@pytest.fixture
def judging(shared_gateway):
    return shared_gateway(PROPERTIES, POLICIES)


def error_codes(address: str, frame: bytes, request: object) -> object:
    """Return the error codes of the response; None without a response."""
    with RawClient(address) as client:
        client.send(frame)
        try:
            data = client.receive()
        except (EOFError, ConnectionError):
            return "closed"
    return codes(parse_response(data, request.__api_key__, request.__version__))


@pytest.mark.parametrize("name", REQUESTS)
def test_invalid_requests_get_the_error_codes_of_a_broker(judging, kafka, topic, name):
    request = REQUESTS[name]
    frame = request_frame(request, 1)
    results = [error_codes(at, frame, request) for at in (kafka.bootstrap_servers, judging.broker_address())]  # fmt: skip
    assert results[0] == results[1]
    assert is_served(judging.broker_address(), topic())
    assert not unexpected(judging)


@pytest.mark.parametrize("name", ARRAYS)
def test_null_arrays_get_the_response_of_a_broker(judging, kafka, topic, name):
    request, empty = ARRAYS[name]
    frame = bytearray(request_frame(request, 1))
    position = 4 + 2 + 2 + 4 + 2 + len("raw") + 1  # behind the request header
    assert frame[position : position + 1] == empty
    frame[position] = 0
    results = [error_codes(at, bytes(frame), request)
            for at in (kafka.bootstrap_servers, judging.broker_address())]  # fmt: skip
    assert results[0] == results[1]
    assert is_served(judging.broker_address(), topic())
    assert not unexpected(judging)


@pytest.mark.parametrize("partition", [-1, -(2**31), 2**31 - 1, 7])
def test_missing_partitions_get_the_error_codes_of_a_broker(judging, kafka, topic, partition):
    name = topic()
    request = produce_request([(name, [(partition, BATCH)])])
    results = []
    for address in (kafka.bootstrap_servers, judging.broker_address()):
        with RawClient(address) as client:
            results.append(produced(client.call(request))[name, partition].error_code)
    assert results[0] == results[1]
    assert not unexpected(judging)


def test_a_partition_that_is_named_twice(judging, kafka, topic):
    """(13)"""
    name = topic(partitions=2)
    request = produce_request([(name, [(0, BATCH), (1, BATCH), (0, b"nothing")])])
    results = []
    for address in (kafka.bootstrap_servers, judging.broker_address()):
        with RawClient(address) as client:
            answers = produced(client.call(request))
        results.append({place: answer.error_code for place, answer in answers.items()})
    assert results[0] == results[1]
    assert not unexpected(judging)
