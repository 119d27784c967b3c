"""The requests that a session serves before and after its client has authenticated."""

import pytest

from penstock.kafka.wire.errors import WireError
from tests.gateway.sessions.secured import HANDSHAKE_RESPONSE, Secured
from tests.gateway.sessions.talk import Talk, answer, other, produce, produce_response
from tests.kafka.wire.sasl_frames import authenticate_frame, handshake_frame, response_frame


@pytest.mark.parametrize("request_of", [lambda: produce(1, "judged"), lambda: other(1)])
@pytest.mark.parametrize("greets", [False, True])
def test_no_other_request_is_served_before_authentication(request_of, greets):
    talk = Secured()
    if greets:
        talk.greet()
    with pytest.raises(WireError, match="before it has authenticated"):
        talk.session.client_data(request_of())
    assert not talk.verdicts
    assert not talk.broker.data


def test_batches_of_an_authenticated_client_are_judged():
    talk = Secured()
    talk.log_in()
    talk.session.client_data(produce(1, "judged"))
    assert len(talk.verdicts) == 1


def test_a_client_whose_authentication_fails_is_not_served():
    talk = Secured()
    talk.greet()
    talk.session.client_data(authenticate_frame())
    talk.session.upstream_data(response_frame(58))
    with pytest.raises(WireError, match="before it has authenticated"):
        talk.session.client_data(produce(1, "judged"))


@pytest.mark.parametrize("code", [0, 58])
def test_bytes_after_an_authentication_request_wait_for_its_response(code):
    talk = Secured()
    talk.greet()
    talk.session.client_data(authenticate_frame() + produce(1, "judged")[:20])
    talk.session.client_data(produce(1, "judged")[20:])
    assert talk.session.is_suspended
    assert not talk.verdicts
    talk.session.upstream_data(response_frame(code))
    assert not talk.session.is_suspended
    if code:
        with pytest.raises(WireError, match="before it has authenticated"):
            talk.session.client_data(b"")
    else:
        talk.session.client_data(b"")
    assert len(talk.verdicts) == (not code)


def test_a_large_frame_is_not_received_before_authentication():
    talk = Secured()
    with pytest.raises(WireError, match="the most is 1000"):
        talk.session.client_data(authenticate_frame(bytes(2_000))[:100])
    talk = Secured()
    talk.log_in()
    talk.session.client_data(authenticate_frame(bytes(2_000))[:100])


def test_a_session_ends_with_its_lifetime_unless_the_client_reauthenticates():
    talk = Secured()
    talk.log_in(lifetime_ms=60_000)
    talk.now = 59.0
    talk.session.client_data(produce(1, "judged"))
    talk.decide()
    talk.session.upstream_data(produce_response(1, "judged"))
    talk.now = 61.0
    talk.log_in(lifetime_ms=60_000)
    talk.session.client_data(produce(2, "judged"))
    talk.decide()
    talk.now = 122.0
    with pytest.raises(WireError, match="expired"):
        talk.session.client_data(produce(3, "judged"))
    assert not talk.verdicts


def test_a_certificate_is_the_principal_until_the_broker_authenticates_the_client():
    talk = Talk(peer="User:CN=alice")
    talk.session.client_data(handshake_frame())
    talk.session.upstream_data(answer(7, b"\x00\x22" + bytes(4)))  # ILLEGAL_SASL_STATE
    assert talk.session.authentication.principal == "User:CN=alice"
    talk.session.client_data(authenticate_frame())
    talk.session.upstream_data(response_frame(34))
    assert talk.session.authentication.principal == "User:CN=alice"
    talk.session.client_data(handshake_frame() + authenticate_frame())
    talk.session.upstream_data(HANDSHAKE_RESPONSE + response_frame())
    assert talk.session.authentication.principal == "User:alice"


def test_an_incomplete_authentication_does_not_extend_the_deadline():
    """The first message of SCRAM is accepted from any client that knows a user name."""
    talk = Secured()
    talk.log_in(lifetime_ms=60_000)
    talk.now = 61.0
    talk.session.client_data(handshake_frame("SCRAM-SHA-256"))
    talk.session.upstream_data(HANDSHAKE_RESPONSE)
    talk.session.client_data(authenticate_frame(b"n,,n=eve,r=abc"))
    talk.session.upstream_data(response_frame())
    with pytest.raises(WireError, match="after its authentication has expired"):
        talk.session.client_data(produce(1, "judged"))
    assert not talk.verdicts
