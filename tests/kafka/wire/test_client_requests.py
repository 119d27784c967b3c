"""Requests of clients: header and body."""

import struct

import pytest

from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.schemas import load_request_schema
from penstock.kafka.wire.slices import finish
from tests.integration.samples import smallest
from tests.raw import request_frame


def framed(hexadecimal: str) -> bytes:
    request = bytes.fromhex(hexadecimal)
    return struct.pack(">i", len(request)) + request


def longer(api_key: int, version: int) -> bytes:
    """Return a request with a byte after its end."""
    frame = request_frame(smallest(load_request_schema(api_key, version)), 7)
    return struct.pack(">i", len(frame) - 3) + frame[4:] + b"\x00"


def test_the_request_of_librdkafka_for_all_topics_is_read():
    """`list_topics()` of 2.16, in version 13: the number of topics has four bytes, not one."""
    frame = framed("0003000d00000003000772646b61666b61" + "00" + "00000000" + "010000")

    request = read_request(frame)

    body = finish(request.read_body())
    assert body.topics is None
    assert body.allow_auto_topic_creation is False
    assert request.frame == frame


@pytest.mark.parametrize(("api_key", "version"), [(19, 7), (32, 4), (44, 1), (33, 2)])
def test_other_requests_with_bytes_after_their_end_are_an_error(api_key, version):
    with pytest.raises(WireError):
        finish(read_request(longer(api_key, version)).read_body())
