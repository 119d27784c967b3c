"""FindCoordinator requests are read without an object for each key."""

import pytest
from kio.static.primitive import i8

from penstock.kafka.wire.client_requests import read_request
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.coordinator_keys import key_type, unavailable
from penstock.kafka.wire.requests.produce import ENTRIES_MAX
from penstock.kafka.wire.schemas import load_request_schema
from penstock.kafka.wire.slices import finish
from tests.kafka.wire.entities import in_slices
from tests.raw import parse_response, request_frame


def find(version, *keys, key_type=1):
    schema = load_request_schema(10, version)
    fields = {"coordinator_keys": keys} if version >= 4 else {"key": keys[0]}
    if version >= 1:
        fields["key_type"] = i8(key_type)
    return read_request(request_frame(schema(**fields), 9))


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key", ["", "a key", "k" * 300])
def test_the_key_type_is_read(version, key):
    request = find(version, key, key_type=2)
    assert key_type(request.frame, request.body_at, version) == (2 if version else 0)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_truncated_request_is_an_error(version):
    with pytest.raises(WireError):
        key_type(bytes(20), 20, version)


def refused(request, message):
    return unavailable(request.frame, request.body_at, request.response_header, 15, message)


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("message", [None, "no"])
def test_a_refusal_has_no_coordinator_for_any_key(version, message):
    keys = ("", "a", "b" * 200, "a")
    response = parse_response(finish(refused(find(version, *keys), message)), 10, version)
    assert [
        (
            coordinator.key,
            coordinator.node_id,
            coordinator.host,
            coordinator.port,
            coordinator.error_code,
            coordinator.error_message,
        )
        for coordinator in response.coordinators
    ] == [(key, -1, "", -1, 15, message) for key in keys]
    assert finish(refused(find(version), message))


def test_responses_to_many_keys_are_built_in_slices_and_do_not_repeat_a_long_message():
    request = find(6, *["k"] * ENTRIES_MAX)
    frame, slices = in_slices(refused(request, "m" * 1000))
    assert 20 <= slices <= 40
    assert len(frame) < 20 * ENTRIES_MAX + 100
    with pytest.raises(WireError, match="too many"):
        finish(refused(find(6, *["k"] * (ENTRIES_MAX + 1)), "m"))


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_missing_keys_are_an_error(cut):
    request = find(4, "a", "b")
    request.frame = request.frame[:-cut]
    with pytest.raises(WireError):
        finish(refused(request, "no"))
