"""ApiVersions: a broker's response with narrowed ranges, compared with Kafka's schema (kio)."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader
from kio.static.primitive import i16, i32, i32Timedelta

from penstock.kafka.wire.api_versions import (
    API_KEY,
    LAST_VERSION,
    NAMES_BROKER_FROM,
    meant_broker,
    narrow,
    rebootstrap_required,
    request,
    unsupported,
)
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.schemas import load_request_schema
from tests.gateway.admin.talk import broker_frame
from tests.raw import parse_response, request_frame

VERSIONS = range(LAST_VERSION + 1)
RANGES = {0: (3, 13), 1: (4, 17), 3: (0, 12), 22: (9, 9)}
"""As many as a gateway understands; all but the keys here stay as they are."""
BROKER = [(0, 0, 12), (1, 5, 18), (2, 1, 10), (3, 13, 14), (22, 0, 5), (60, 0, 2)]
THROTTLED = i32Timedelta.parse(datetime.timedelta(milliseconds=1234))
NARROWED = [(0, 3, 12), (1, 5, 17), (2, 1, 10), (60, 0, 2)]


def broker_response(version, ranges=BROKER, *, code=0):
    fields = {
        "error_code": code,
        "api_keys": [
            {"api_key": i16(key), "min_version": i16(first), "max_version": i16(last)}
            for key, first, last in ranges
        ],
    }
    if version >= 1:
        fields["throttle_time"] = THROTTLED
    return broker_frame(API_KEY, version, 7, **fields)


def ranges_of(response):
    return [(found.api_key, found.min_version, found.max_version) for found in response.api_keys]


@pytest.mark.parametrize("version", VERSIONS)
def test_version_ranges_are_narrowed_to_those_of_both(version):
    frame = b"".join(narrow(broker_response(version), version, RANGES))
    found = parse_response(frame, API_KEY, version)
    assert ranges_of(found) == NARROWED
    assert found.error_code == 0
    if version >= 1:
        assert found.throttle_time.total_seconds() == 1.234


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_without_a_change_stays_the_same(version):
    frame = broker_response(version, NARROWED)
    assert b"".join(narrow(frame, version, RANGES)) == frame
    assert b"".join(narrow(frame, version, {})) == frame


@pytest.mark.parametrize("version", range(3, LAST_VERSION + 1))
def test_tagged_fields_of_a_range_stay(version):
    frame = broker_response(version, [(0, 0, 12)])
    at = frame.index(b"\x00\x0c\x00") + 2
    tag = b"\x01\x05\x02xy"
    tagged = frame[4:at] + tag + frame[at + 1 :]
    tagged = len(tagged).to_bytes(4, "big") + tagged
    out = b"".join(narrow(tagged, version, RANGES))
    assert out == tagged.replace(b"\x00\x00\x00\x0c" + tag, b"\x00\x03\x00\x0c" + tag)
    assert int.from_bytes(out[:4], "big") == len(out) - 4


@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_to_an_unsupported_version_is_in_version_0(version):
    frame = broker_response(0, [(API_KEY, 0, 9)], code=35)
    found = parse_response(b"".join(narrow(frame, version, {API_KEY: (0, 4)})), API_KEY, 0)
    assert (found.error_code, ranges_of(found)) == (35, [(API_KEY, 0, 4)])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_response_is_an_error(version):
    frame = broker_response(version, NARROWED)
    behind = 4 * (version >= 1) + (version >= 3)  # throttle time, tagged fields
    for end in range(8, len(frame) - behind):
        with pytest.raises(WireError):
            narrow(frame[:end], version, RANGES)


def test_a_request_has_version_0():
    kind = load_request_schema(API_KEY, 0)
    frame = request(77)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, size = entity_reader(kind.__header_schema__)(frame, 4)
    assert (header.request_api_key, header.request_api_version) == (API_KEY, 0)
    assert (header.correlation_id, header.client_id) == (77, None)
    assert 4 + size == len(frame)


def test_a_response_to_an_unknown_version_names_the_known_versions():
    found = parse_response(unsupported(77), API_KEY, 0)
    assert (found.error_code, ranges_of(found)) == (35, [(18, 0, 5)])
    assert unsupported(77)[4:8] == (77).to_bytes(4, "big")


def naming(cluster_id=None, node=-1, *, name="app", version="1.0"):
    kind = load_request_schema(API_KEY, NAMES_BROKER_FROM)
    return kind(
        client_software_name=name,
        client_software_version=version,
        cluster_id=cluster_id,
        node_id=i32(node),
    )


@settings(max_examples=1000)
@given(
    st.none() | st.text(max_size=200),
    st.integers(-(2**31), 2**31 - 1) | st.just(-1),
    st.none() | st.text(max_size=20),
)
def test_the_meant_broker_is_read_as_the_protocol_library_writes_it(cluster_id, node, client_id):
    found = meant_broker(request_frame(naming(cluster_id, node), 7, client_id))
    is_named = cluster_id is not None and node != -1
    assert found == ((cluster_id, node) if is_named else None)


@pytest.mark.parametrize("text", ["", "-", "a-", ".a", "a b", "a/b", "\u00e4", "a\n"])
def test_a_request_that_a_broker_refuses_names_no_broker(text):
    for broken in (naming("c", 1, name=text), naming("c", 1, version=text)):
        assert meant_broker(request_frame(broken, 7)) is None


@pytest.mark.parametrize("text", ["a", "0", "apache-kafka-java", "4.4.0", "a--b", "A.1-2"])
def test_a_valid_name_or_version_of_software(text):
    for valid in (naming("c", 1, name=text), naming("c", 1, version=text)):
        assert meant_broker(request_frame(valid, 7)) == ("c", 1)


def test_a_request_that_ends_too_early_is_an_error():
    frame = request_frame(naming("c", 1), 7)
    for end in range(8, len(frame)):
        with pytest.raises(WireError):
            meant_broker(frame[:end])


@pytest.mark.parametrize("field", ["name", "version", "cluster_id"])
def test_a_text_that_is_too_long_for_a_broker_is_an_error(field):
    longest = {"name": "app", "version": "1", "cluster_id": "c", "node": 1, field: "a" * 32_767}
    assert meant_broker(request_frame(naming(**longest), 7)).node == 1
    frame = request_frame(naming(**longest | {field: "a" * 32_768}), 7)
    with pytest.raises(WireError):
        meant_broker(frame)


def test_a_client_of_another_broker_has_to_bootstrap_again():
    found = parse_response(rebootstrap_required(77), API_KEY, NAMES_BROKER_FROM)
    assert (found.error_code, found.api_keys) == (129, ())
    assert found.throttle_time.total_seconds() == 0
