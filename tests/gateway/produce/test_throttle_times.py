"""The throttle time of a broker reaches the client, also in responses that the gateway changes."""

import datetime
import io
from importlib import import_module

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i32, i32Timedelta, i64

from penstock.engine.verdict import ACCEPTED, refused, replaced
from penstock.gateway.listening.addresses import Addresses
from penstock.kafka.wire.schemas import load_request_schema, load_response_schema
from tests.gateway.produce.intercepted import Intercepted, batch
from tests.gateway.sessions.talk import Talk
from tests.raw import errors, parse_response, produce_request, produced, request_frame

FETCH = 1
THROTTLED = datetime.timedelta(milliseconds=1234)
VERSIONS = (3, 8, 9, 12)
NO = refused(44, "no", "v")


def response_frame(number, body):
    """Return a broker's response."""
    written = io.BytesIO()
    of = type(body).__header_schema__
    values = {"correlation_id": i32(number)}
    entity_writer(of)(written, of(**values))
    entity_writer(type(body))(written, body)
    data = written.getvalue()
    return len(data).to_bytes(4, "big") + data


def produce_response(number, version, *topics, code=0, bad=None):
    """Return a broker's throttled response about partition 0 of topics."""
    kind = load_response_schema(0, version)
    of = import_module(kind.__module__)
    offsets = {"base_offset": i64(5), "log_append_time": None}
    if version >= 5:
        offsets["log_start_offset"] = i64(0)
    if version >= 8:
        found = (
            ()
            if bad is None
            else (
                of.BatchIndexAndErrorMessage(batch_index=i32(bad), batch_index_error_message="bad"),
            )
        )
        offsets |= {"record_errors": found, "error_message": None}
    partition = of.PartitionProduceResponse(index=i32(0), error_code=ErrorCode(code), **offsets)
    responses = tuple(
        of.TopicProduceResponse(name=topic, partition_responses=(partition,)) for topic in topics
    )
    body = kind(responses=responses, throttle_time=i32Timedelta.parse(THROTTLED))
    return response_frame(number, body)


def request(number, version, *topics, data):
    return request_frame(
        produce_request([(topic, [(0, data)]) for topic in topics], version=version), number
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_response_that_is_not_changed(version):
    talk = Talk()
    talk.session.client_data(request(1, version, "judged", data=batch(b"v")))
    talk.decide(ACCEPTED)
    given = produce_response(1, version, "judged")
    talk.session.upstream_data(given)
    assert talk.client.take() == given
    assert parse_response(given, 0, version).throttle_time == THROTTLED


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_response_with_a_partition_that_the_gateway_refused(version):
    talk = Talk()
    talk.session.client_data(request(1, version, "judged", "free", data=batch(b"v")))
    talk.decide(NO)
    talk.session.upstream_data(produce_response(1, version, "free"))
    merged = parse_response(talk.client.take(), 0, version)
    assert {topic: found.error_code for (topic, _), found in produced(merged).items()} == {
        "judged": 44,
        "free": 0,
    }
    assert merged.throttle_time == THROTTLED


@pytest.mark.parametrize("version", [8, 9, 12])
def test_of_a_response_with_the_positions_in_the_clients_batch(version):
    talk = Intercepted()
    talk.addresses = Addresses(bootstrap=(), advertised_host="gateway", places=None)
    talk.session.client_data(request(1, version, "judged", data=batch(b"a", b"b", b"c")))
    talk.decide(replaced(batch(b"b", b"c"), [0]))
    talk.session.upstream_data(produce_response(1, version, "judged", code=87, bad=1))
    changed = parse_response(talk.client.take(), 0, version)
    assert list(errors(produced(changed)["judged", 0])) == [(2, "bad")]
    assert changed.throttle_time == THROTTLED


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_without_the_brokers_has_none(version):
    talk = Talk()
    talk.session.client_data(request(1, version, "judged", data=batch(b"v")))
    talk.decide(NO)
    own = parse_response(talk.client.take(), 0, version)
    assert own.throttle_time == datetime.timedelta(0)


@pytest.mark.parametrize("version", [4, 12, 15])
def test_of_a_response_to_fetch(version):
    kind = load_request_schema(FETCH, version)
    fields = {
        "max_wait": i32Timedelta.parse(datetime.timedelta(0)),
        "min_bytes": i32(1),
        "topics": (),
    }
    if version >= 7:
        fields |= {"forgotten_topics_data": ()}
    if version < 15:
        fields |= {"replica_id": i32(-1)}
    talk = Talk()
    talk.session.client_data(request_frame(kind(**fields), 1))
    assert talk.broker.take()
    answered = load_response_schema(FETCH, version)
    time = {"throttle_time": i32Timedelta.parse(THROTTLED), "responses": ()}
    if version >= 7:
        time |= {"error_code": ErrorCode(0), "session_id": i32(0)}
    given = response_frame(1, answered(**time))
    talk.session.upstream_data(given)
    assert talk.client.take() == given
    assert parse_response(given, FETCH, version).throttle_time == THROTTLED
