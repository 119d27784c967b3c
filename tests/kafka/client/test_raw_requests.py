"""Requests and responses as aiokafka carries them, against the protocol library's own frames."""

import datetime
import io

import pytest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.list_offsets.v5.request import ListOffsetsRequest
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i32, i32Timedelta

from penstock.kafka.client.errors import UnsupportedVersionError
from penstock.kafka.client.protocol.raw_requests import RawResponse, raw_request, read_entity
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.own_requests import write_request
from tests.kafka.client.frames import response_frame

FLEXIBLE = FindCoordinatorRequest(key="k", key_type=i8(1))
RIGID = ListOffsetsRequest(replica_id=BrokerId(-1), isolation_level=i8(1), topics=())
RESPONSE = FindCoordinatorResponse(
    throttle_time=i32Timedelta.parse(datetime.timedelta(0)),
    error_code=ErrorCode.none,
    error_message=None,
    node_id=BrokerId(3),
    host="h",
    port=i32(9092),
)


@pytest.mark.parametrize("entity", [FLEXIBLE, RIGID])
def test_the_bytes_of_a_request(entity):
    request = raw_request(entity).prepare({10: (0, 6), 2: (1, 9)})
    written = request.build_request_header(77, "me").encode() + request.encode()
    assert len(written).to_bytes(4, "big") + written == write_request(77, entity, "me")


def test_a_version_that_is_not_served():
    for versions in ({}, {10: (0, 2)}, {10: (4, 6)}):
        with pytest.raises(UnsupportedVersionError, match="version 3 of API 10"):
            raw_request(FLEXIBLE).prepare(versions)


def test_a_response_is_read_from_the_bytes_that_were_received():
    frame = response_frame(RESPONSE, 77)
    buffer = io.BytesIO(frame)
    assert raw_request(FLEXIBLE).parse_response_header(buffer).correlation_id == 77
    response = RawResponse.decode(buffer)
    assert response.frame is frame
    assert read_entity(response, FindCoordinatorResponse) == RESPONSE


@pytest.mark.parametrize("kind", [FindCoordinatorResponse, ApiVersionsResponse])
@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"\0\0\0\1\0\0\0\xff\xff\xff\xff"])
def test_a_response_that_lies(frame, kind):
    with pytest.raises(WireError, match=f"a {kind.__name__} that cannot be read"):
        read_entity(RawResponse(frame), kind)


def test_no_contents_in_a_log():
    assert "secret" not in repr(RawResponse(b"secret"))
    assert repr(raw_request(FLEXIBLE)) == "RawRequest(api_key=10, version=3)"
