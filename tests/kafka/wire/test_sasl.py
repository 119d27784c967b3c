"""A client's principal is known once the broker has accepted it, and never before or wrongly."""

import base64
import contextlib
import gc
import json

import pytest
from aiokafka.conn import OAuthAuthenticator, SaslPlainAuthenticator, ScramAuthenticator
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests.sasl import (
    Authentication,
    authenticated,
    read_authenticate,
    read_handshake,
    session_lifetime_ms,
)
from tests.kafka.wire.sasl_frames import ALICE, authenticate_frame, handshake_frame, response_frame

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "", "plain"]
SCRAM_ALICE = b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"
SCRAM_FINAL = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfc,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="


def begun(mechanism: str, *messages: bytes) -> Authentication:
    """Return a connection whose client sent all messages without waiting."""
    connection = Authentication()
    assert not connection.is_complete
    connection.handshake(mechanism)
    for message in messages:
        connection.sent(message)
    return connection


def accepted(mechanism: str, *messages: bytes) -> str | None:
    """Return the principal after the broker has accepted each message; before, there is none."""
    connection = begun(mechanism)
    for message in messages:
        assert connection.principal is None
        connection.sent(message)
        assert connection.principal is None
        connection.answered(True)
    return connection.principal


def jwt(payload, *, signature="c2ln") -> str:
    def encoded(content) -> str:
        return base64.urlsafe_b64encode(content).decode().rstrip("=")

    content = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    header = encoded(b'{"alg":"RS256"}')
    return f"{header}.{encoded(content)}.{signature}"


def bearer(token: str, more: str = "") -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01{more}\x01".encode()


# Frames


@pytest.mark.parametrize("client_id", ["raw", "", "ü", None])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", ""])
def test_a_handshake_is_read(mechanism, client_id):
    assert read_handshake(handshake_frame(mechanism, client_id=client_id)) == mechanism


@pytest.mark.parametrize("client_id", ["raw", "", "ü", None])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("auth_bytes", [b"", ALICE, bytes(range(256)) * 300])
def test_an_authenticate_request_is_read(auth_bytes, version, client_id):
    frame = authenticate_frame(auth_bytes, version, client_id)
    assert read_authenticate(frame) == auth_bytes


def test_tagged_fields_of_the_header_are_skipped():
    frame = authenticate_frame(ALICE, client_id=None)
    assert frame[14:15] == b"\x00"
    tagged = frame[:14] + b"\x01\x05\x03abc" + frame[15:]
    assert read_authenticate(tagged) == ALICE


@pytest.mark.parametrize(
    ("read", "frame"),
    [
        (read_handshake, handshake_frame(version=0)),
        (read_handshake, authenticate_frame(version=1)),
        (read_handshake, handshake_frame("PLAIN").replace(b"PLAIN", b"PL\xffIN")),
        (read_handshake, handshake_frame("PLAIN").replace(b"\x00\x05PLAIN", b"\xff\xff")),
        (read_authenticate, handshake_frame()),
        (read_authenticate, authenticate_frame().replace(b"\x00\x24\x00\x02", b"\x00\x24\x00\x03")),
        (read_authenticate, authenticate_frame().replace(b"\x00\x24\x00\x02", b"\x00\x24\xff\xff")),
        (read_authenticate, authenticate_frame(b"", client_id=None)[:-2] + b"\x00\x00"),
        (read_authenticate, authenticate_frame(b"", 0)[:-4] + b"\xff\xff\xff\xff"),
    ],
)
def test_other_frames_are_refused_without_their_content_in_the_error(read, frame):
    with pytest.raises(WireError) as raised:
        read(frame)
    assert raised.value.__suppress_context__
    assert "PL" not in str(raised.value)


@pytest.mark.parametrize(
    ("read", "frame", "not_read"),
    [
        (read_handshake, handshake_frame(), 0),
        (read_authenticate, authenticate_frame(version=0), 0),
        (read_authenticate, authenticate_frame(version=2), len("t")),
        (lambda frame: authenticated(frame, 0), response_frame(version=0), 0),
        (lambda frame: authenticated(frame, 1), response_frame(version=1), len("lifetime")),
        (
            lambda frame: authenticated(frame, 2),
            response_frame(58, message="no", auth_bytes=b"x"),
            len("lifetime" + "t"),
        ),
    ],
)
def test_truncated_frames_are_refused(read, frame, not_read):
    read(frame)
    for length in range(len(frame) - not_read):
        with pytest.raises(WireError):
            read(frame[:length])


@given(st.binary(max_size=80), st.integers(-1, 4))
def test_any_bytes_are_read_or_refused(content, version):
    for read in (read_handshake, read_authenticate, lambda frame: authenticated(frame, version)):
        with contextlib.suppress(WireError):
            read(content)


# Answers


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("auth_bytes", [b"", b"r=nonce,s=c2FsdA==,i=4096", b"v=c2ln"])
def test_the_principal_is_known_after_a_success(version, auth_bytes):
    frame = response_frame(version=version, auth_bytes=auth_bytes)
    assert authenticated(frame, version) is True


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("message", [None, "", "Authentication failed"])
def test_the_principal_is_unknown_after_an_error(version, message):
    frame = response_frame(58, version=version, message=message)
    assert authenticated(frame, version) is False


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "words", [b'{"status":"invalid_token"}', b' {"status":"x"}', b"e=invalid-proof"]
)
def test_the_principal_is_unknown_after_a_refusal_without_an_error_code(version, words):
    frame = response_frame(version=version, auth_bytes=words)
    assert authenticated(frame, version) is False


@pytest.mark.parametrize("version", [0, 1, 2])
def test_without_authentication_there_is_no_principal(version):
    frame = response_frame(34, version=version, message="SaslAuthenticate after success")
    assert authenticated(frame, version) is None


def test_an_unknown_error_code_is_a_refusal():
    frame = response_frame(58, version=0)
    assert authenticated(frame[:8] + b"\x7f\xff" + frame[10:], 0) is False


@pytest.mark.parametrize("version", [-1, 3])
def test_a_response_in_an_unknown_version_is_an_error(version):
    with pytest.raises(WireError):
        authenticated(response_frame(), version)


# PLAIN


@pytest.mark.parametrize(
    ("message", "principal"),
    [
        (ALICE, "User:alice"),
        (b"alice\x00alice\x00secret", "User:alice"),
        (b"admin\x00alice\x00secret", "User:alice"),
        (b"\x00User:a,b=c d\x00secret", "User:User:a,b=c d"),
        ("\x00jürgen\x00geheim".encode(), "User:jürgen"),
        (b"\x00\xff\x00secret", None),
        (b"\x00\x00secret", None),
        (b"\x00alice", None),
        (b"\x00alice\x00sec\x00ret", None),
        (b"alice", None),
        (b"", None),
    ],
)
def test_the_principal_of_plain(message, principal):
    assert accepted("PLAIN", message) == principal


# SCRAM


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_needs_two_messages(mechanism):
    assert accepted(mechanism, SCRAM_ALICE, SCRAM_FINAL) == "User:alice"


def test_scram_has_no_principal_after_a_single_message():
    assert accepted("SCRAM-SHA-256", SCRAM_ALICE) is None


@pytest.mark.parametrize(
    ("message", "principal"),
    [
        (b"n,,n=a=2Cb=3Dc,r=x", "User:a,b=c"),
        (b"n,,n=a=3D2Cb,r=x", "User:a=2Cb"),
        (b"n,,n=a=3D3D,r=x", "User:a=3D"),
        (b"n,a=alice,n=alice,r=x", "User:alice"),
        (b"n,,m=more,n=alice,r=x", "User:alice"),
        (b"n,,n=alice,r=x,tokenauth=false", "User:alice"),
        (b"n,,n=alice,r=x,other=true,z=1=2", "User:alice"),
        (b"n,,n=n=3Dbob,r=x", "User:n=bob"),
        (b"n,,n=token-id,r=x,tokenauth=true", None),
        (b"n,,n=token-id,r=x,tokenauth=TRUE", None),
        (b"n,,n=token-id,r=x,a=b,tokenauth=false,tokenauth=true", None),
        (b"n,,n=alice,r=x,tokenauth=true,tokenauth=false", "User:alice"),
        (b"n,,n=alice,r=tokenauth=true", "User:alice"),
        (b"n,,n=al=ice,r=x", None),
        (b"n,,n=al=2cice,r=x", None),
        (b"n,,n=,r=x", None),
        (b"n,,n=alice,r=", None),
        (b"n,,n=alice", None),
        (b"n,,n=alice,r=x,", None),
        (b"n,,n=alice,r=x,=true", None),
        (b"n,,n=alice,n=bob,r=x", None),
        (b"y,,n=alice,r=x", None),
        (b"p=tls-unique,,n=alice,r=x", None),
        (b"n=alice,r=x", None),
        (b"n,,n=al\x00ice,r=x", None),
        ("n,,n=jürgen,r=x".encode(), None),  # Kafka takes names in ASCII alone
        (b"", None),
    ],
)
def test_user_names_of_scram_are_decoded(message, principal):
    assert accepted("SCRAM-SHA-256", message, SCRAM_FINAL) == principal


def test_only_the_first_message_has_the_user_name():
    assert accepted("SCRAM-SHA-256", SCRAM_ALICE, b"n,,n=admin,r=x") == "User:alice"


def test_scram_may_be_refused_after_the_second_message():
    connection = begun("SCRAM-SHA-512", SCRAM_ALICE)
    connection.answered(True)
    connection.sent(SCRAM_FINAL)
    connection.answered(False)
    assert connection.principal is None


# OAUTHBEARER


@pytest.mark.parametrize(
    ("message", "principal"),
    [
        (bearer(jwt({"sub": "alice"})), "User:alice"),
        (bearer(jwt({"sub": "alice", "aud": ["x"], "exp": 1.5e9})), "User:alice"),
        (bearer(jwt({"sub": "jürgen ÿþ"})), "User:jürgen ÿþ"),
        (bearer(jwt('{"sub":"jürgen ÿþ~~???"}'.encode())), "User:jürgen ÿþ~~???"),
        (bearer(jwt({"sub": "alice"}, signature="")), "User:alice"),
        (bearer(jwt({"sub": "alice"}), "traceId=1\x01"), "User:alice"),
        (bearer(jwt(b'{"sub":"mallory","sub":"alice"}')), "User:alice"),
        (bearer(jwt({"sub": "alice"})).replace(b"Bearer", b"bEARER  "), "User:alice"),
        (bearer(jwt({"sub": "alice"})).replace(b"n,,", b"n,a=alice,"), "User:alice"),
        (bearer(jwt({"sub": "mallory"}), f"auth=Bearer {jwt({'sub': 'alice'})}\x01"), "User:alice"),
        (bearer("opaque-token"), None),
        (bearer("a.b.c"), None),
        (bearer("a.bbbbb.c"), None),
        (bearer(jwt({"sub": "alice"}) + ".d.e"), None),
        (bearer(jwt(b"\xff\xfe")), None),
        (bearer(jwt(b"not json")), None),
        (bearer(jwt(b"[" * 100_000)), None),
        (bearer(jwt(b"1" * 100_000)), None),
        (bearer(jwt(["sub"])), None),
        (bearer(jwt({})), None),
        (bearer(jwt({"sub": 7})), None),
        (bearer(jwt({"sub": None})), None),
        (bearer(jwt({"sub": ["alice"]})), None),
        (bearer(jwt({"sub": ""})), None),
        (bearer(jwt({"sub": " "})), None),
        (bearer(jwt({"sub": "alice\n"})), None),
        (bearer(jwt({"sub": "\ud800"})), None),
        (bearer(jwt({"sub": "alice"})).replace(b"Bearer", b"Basic"), None),
        (bearer(jwt({"sub": "alice"})).replace(b"auth", b"other"), None),
        (bearer(jwt({"sub": "alice"}))[:-1], None),
        (bearer(jwt({"sub": "alice"})).replace(b"n,,", b"y,,"), None),
        (b"n,,\x01\x01", None),
        (b"\x01", None),
        (b"", None),
    ],
)
def test_the_principal_of_oauthbearer(message, principal):
    assert accepted("OAUTHBEARER", message) == principal


def test_a_token_that_the_broker_refuses_without_an_error_code():
    """Kafka first sends a challenge with the reason, and fails after the client's reply."""
    connection = begun("OAUTHBEARER", bearer(jwt({"sub": "admin"})))
    challenge = response_frame(version=1, auth_bytes=b'{"status":"invalid_token"}')
    connection.answered(authenticated(challenge, 1))
    assert connection.principal is None

    connection.sent(b"\x01")
    connection.answered(authenticated(response_frame(58, version=1), 1))
    assert connection.principal is None


def test_a_valid_token_after_a_refused_token_is_accepted():
    connection = begun("OAUTHBEARER", bearer(jwt({"sub": "admin"})))
    connection.answered(False)
    connection.sent(bearer(jwt({"sub": "mallory"})))
    connection.answered(True)
    assert connection.principal == "User:mallory"


# Everything else


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM", "plain", ""])
@pytest.mark.parametrize("message", [ALICE, SCRAM_ALICE, bearer(jwt({"sub": "alice"}))])
def test_other_mechanisms_have_no_principal(mechanism, message):
    assert accepted(mechanism, message, message, message) is None


def test_without_a_handshake_there_is_no_principal():
    connection = Authentication()
    assert not connection.is_complete
    connection.sent(ALICE)
    connection.answered(True)
    assert connection.principal is None


def test_a_response_without_a_request_is_ignored():
    connection = begun("PLAIN")
    connection.answered(True)
    connection.answered(False)
    connection.sent(ALICE)
    assert connection.principal is None
    connection.answered(True)
    assert connection.principal == "User:alice"


@pytest.mark.parametrize(
    ("mechanism", "first", "last"),
    [
        ("PLAIN", b"\x00", b"\x00secret"),
        ("SCRAM-SHA-256", b"n,,n=", b",r=x"),
    ],
)
def test_messages_longer_than_brokers_accept_are_not_read(mechanism, first, last):
    most = 524_288 - len(first) - len(last)
    rest = [SCRAM_FINAL] if mechanism != "PLAIN" else []
    assert accepted(mechanism, first + b"a" * most + last, *rest) == f"User:{'a' * most}"
    assert accepted(mechanism, first + b"a" * (most + 1) + last, *rest) is None


@pytest.mark.thorough
@given(st.sampled_from(MECHANISMS), st.lists(st.binary() | st.text().map(str.encode), max_size=4))
def test_strange_messages_never_raise(mechanism, messages):
    connection = begun(mechanism, *messages)
    for _ in messages:
        assert connection.principal is None
        connection.answered(False)
    assert connection.principal is None


@given(
    st.text(st.characters(codec="ascii", exclude_characters="\x00"), min_size=1),
    st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]),
)
async def test_names_that_a_client_library_writes(name, mechanism):
    if mechanism == "OAUTHBEARER" and name != name.strip("".join(map(chr, range(33)))):
        return

    class Tokens:
        async def token(self):
            return jwt({"sub": name})

        def extensions(self):
            return {"traceId": "1"}

    if mechanism == "PLAIN":
        plain = SaslPlainAuthenticator(
            loop=None, sasl_plain_username=name, sasl_plain_password="secret"
        )
        messages = [plain._step(None)[0]]
    elif mechanism == "OAUTHBEARER":
        messages = [(await OAuthAuthenticator(sasl_oauth_token_provider=Tokens()).step(None))[0]]
    else:
        scram = ScramAuthenticator(
            loop=None,
            sasl_plain_username=name,
            sasl_plain_password="secret",
            sasl_mechanism=mechanism,
        )
        first = scram._step(None)[0]
        server_first = f"r={scram._nonce}more,s=c2FsdA==,i=1"
        messages = [first, scram._step(server_first.encode())[0]]

    assert accepted(mechanism, *messages) == f"User:{name}"


# Authenticating again


def authenticated_as_alice() -> Authentication:
    connection = begun("PLAIN", ALICE)
    connection.answered(True)
    assert connection.principal == "User:alice"
    return connection


def test_during_reauthentication_the_principal_stays_until_the_broker_accepts():
    connection = begun("SCRAM-SHA-256", SCRAM_ALICE, SCRAM_FINAL)
    connection.answered(True)
    connection.answered(True)

    connection.handshake("SCRAM-SHA-256")
    for message in (b"n,,n=bob,r=x", SCRAM_FINAL):
        assert connection.principal == "User:alice"
        connection.sent(message)
        assert connection.principal == "User:alice"
        connection.answered(True)
    assert connection.principal == "User:bob"


def test_a_refused_reauthentication_keeps_no_principal():
    connection = authenticated_as_alice()
    connection.handshake("PLAIN")
    connection.sent(b"\x00bob\x00wrong")
    connection.answered(False)
    assert connection.principal is None


def test_reauthentication_with_an_opaque_token_has_no_principal():
    connection = authenticated_as_alice()
    connection.handshake("OAUTHBEARER")
    connection.sent(bearer("opaque"))
    assert connection.principal == "User:alice"
    connection.answered(True)
    assert connection.principal is None


def test_a_reauthentication_that_the_broker_does_not_support_keeps_the_principal():
    """Without KIP-368 a broker returns ILLEGAL_SASL_STATE, and keeps the principal."""
    connection = authenticated_as_alice()
    connection.handshake("PLAIN")
    connection.sent(b"\x00bob\x00secret")
    connection.answered(authenticated(response_frame(34), 2))
    assert connection.principal == "User:alice"


def test_a_handshake_begins_with_the_first_message():
    connection = begun("SCRAM-SHA-256", SCRAM_ALICE)
    connection.answered(True)
    connection.handshake("SCRAM-SHA-256")
    connection.sent(b"n,,n=bob,r=x")
    connection.answered(True)
    assert connection.principal is None
    connection.sent(SCRAM_FINAL)
    connection.answered(True)
    assert connection.principal == "User:bob"


# Clients that do not wait


def test_the_response_to_a_message_is_not_taken_for_the_next_response():
    connection = begun("PLAIN", b"\x00mallory\x00right", b"\x00admin\x00wrong")
    connection.answered(True)
    assert connection.principal == "User:mallory"
    connection.answered(None)
    assert connection.principal == "User:mallory"


def test_the_response_to_a_message_is_not_taken_for_that_of_the_next_handshake():
    connection = begun("PLAIN", b"\x00mallory\x00right")
    connection.handshake("PLAIN")
    connection.sent(b"\x00admin\x00wrong")
    connection.answered(True)
    assert connection.principal == "User:mallory"
    connection.answered(False)
    assert connection.principal is None


def test_authentication_is_undecided_until_the_last_response():
    connection = begun("SCRAM-SHA-256")
    assert not connection.undecided
    for message in (SCRAM_ALICE, SCRAM_FINAL):
        connection.sent(message)
        assert connection.undecided
        connection.answered(True)
        assert not connection.undecided


# Secrets


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\x00alice\x00hunter2hunter2"),
        ("PLAIN", b"\x00\xff\x00hunter2hunter2"),
        ("PLAIN", b"hunter2hunter2"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=hunter2hunter2"),
        ("OAUTHBEARER", bearer(jwt({"sub": "alice"}, signature="hunter2hunter2"))),
        ("GSSAPI", b"hunter2hunter2"),
    ],
)
def test_messages_are_not_kept(mechanism, message):
    connection = begun(mechanism, message)
    seen: dict[int, object] = {}
    pending: list[object] = [vars(connection)]
    while pending:
        sent = pending.pop()
        if id(sent) in seen or isinstance(sent, type) or callable(sent):
            continue
        seen[id(sent)] = sent
        pending += gc.get_referents(sent)
    assert not any("hunter2" in repr(item) for item in seen.values())
    assert "hunter2" not in repr(connection)


def test_before_kip_368_a_session_has_no_end():
    assert session_lifetime_ms(b"", 0) == 0
