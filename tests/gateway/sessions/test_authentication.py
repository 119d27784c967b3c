"""What a session serves a client before and after it has authenticated to the cluster."""

import pytest

from penstock.wire.errors import WireError
from tests.gateway.sessions.test_session import Talk, answer, other, produce, produce_answer
from tests.wire.test_sasl import authenticate_frame, handshake_frame, response_frame

HANDSHAKE_ANSWER = answer(7, b"\x00\x00" + bytes(4))


class Secured(Talk):
    """In front of a cluster whose listeners want SASL."""

    requires_sasl = True
    now = 0.0

    def clock(self):
        return self.now

    def greet(self):
        self.session.client_data(handshake_frame())
        self.session.upstream_data(HANDSHAKE_ANSWER)
        self.broker.take(), self.client.take()

    def log_in(self, *, lifetime_ms=0):
        self.greet()
        self.session.client_data(authenticate_frame())
        self.session.upstream_data(response_frame(lifetime_ms=lifetime_ms))
        self.broker.take(), self.client.take()


@pytest.mark.parametrize("request_of", [lambda: produce(1, "judged"), lambda: other(1)])
@pytest.mark.parametrize("greets", [False, True])
def test_nothing_else_is_served_before_a_login(request_of, greets):
    talk = Secured()
    if greets:
        talk.greet()
    with pytest.raises(WireError, match="before it has authenticated"):
        talk.session.client_data(request_of())
    assert not talk.verdicts
    assert not talk.broker.data


def test_a_client_that_is_accepted_is_judged():
    talk = Secured()
    talk.log_in()
    talk.session.client_data(produce(1, "judged"))
    assert len(talk.verdicts) == 1


def test_a_client_that_is_refused_is_not():
    talk = Secured()
    talk.greet()
    talk.session.client_data(authenticate_frame())
    talk.session.upstream_data(response_frame(58))
    with pytest.raises(WireError, match="before it has authenticated"):
        talk.session.client_data(produce(1, "judged"))


@pytest.mark.parametrize("code", [0, 58])
def test_what_comes_behind_a_message_waits_for_its_answer(code):
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


def test_a_large_frame_is_not_taken_before_a_login():
    talk = Secured()
    with pytest.raises(WireError, match="the most is 1000"):
        talk.session.client_data(authenticate_frame(bytes(2_000))[:100])
    talk = Secured()
    talk.log_in()
    talk.session.client_data(authenticate_frame(bytes(2_000))[:100])


def test_a_session_ends_with_its_lifetime_but_for_a_new_login():
    talk = Secured()
    talk.log_in(lifetime_ms=60_000)
    talk.now = 59.0
    talk.session.client_data(produce(1, "judged"))
    talk.decide()
    talk.session.upstream_data(produce_answer(1, "judged"))
    talk.now = 61.0
    talk.log_in(lifetime_ms=60_000)
    talk.session.client_data(produce(2, "judged"))
    talk.decide()
    talk.now = 122.0
    with pytest.raises(WireError, match="expired"):
        talk.session.client_data(produce(3, "judged"))
    assert not talk.verdicts


def test_a_certificate_speaks_for_a_client_until_the_broker_authenticates_it():
    talk = Talk(peer="User:CN=alice")
    talk.session.client_data(handshake_frame())
    talk.session.upstream_data(answer(7, b"\x00\x22" + bytes(4)))  # ILLEGAL_SASL_STATE
    assert talk.session.authentication.principal == "User:CN=alice"
    talk.session.client_data(authenticate_frame())
    talk.session.upstream_data(response_frame(34))
    assert talk.session.authentication.principal == "User:CN=alice"
    talk.session.client_data(handshake_frame() + authenticate_frame())
    talk.session.upstream_data(HANDSHAKE_ANSWER + response_frame())
    assert talk.session.authentication.principal == "User:alice"


def test_half_an_authentication_gives_no_more_time():
    """The first message of SCRAM is accepted from anybody who knows a name."""
    talk = Secured()
    talk.log_in(lifetime_ms=60_000)
    talk.now = 61.0
    talk.session.client_data(handshake_frame("SCRAM-SHA-256"))
    talk.session.upstream_data(HANDSHAKE_ANSWER)
    talk.session.client_data(authenticate_frame(b"n,,n=eve,r=abc"))
    talk.session.upstream_data(response_frame())
    with pytest.raises(WireError, match="after its authentication has expired"):
        talk.session.client_data(produce(1, "judged"))
    assert not talk.verdicts
