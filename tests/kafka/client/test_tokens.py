"""Tokens, from an endpoint, a file, and made up."""

import asyncio
import base64
import json
import math
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from penstock.configuration.clients.oauth import TOKEN_URL, read_oauth
from penstock.kafka.client.connections.tokens import OAuthTokens, TokenError
from tests.certificates import Files
from tests.jwts import jwt
from tests.kafka.client.settings import FILE
from tests.kafka.client.token_endpoint import TokenEndpoint, unsigned

JAAS = 'x.OAuthBearerLoginModule required clientId="me" clientSecret="s3" scope="a b";'


def tokens(properties):
    return OAuthTokens(read_oauth(properties, ""), FILE)


@pytest.fixture
def endpoint():
    with TokenEndpoint() as started:
        yield started


def of(endpoint, **more):
    return tokens({TOKEN_URL: endpoint.url, "sasl.jaas.config": JAAS, **more})


@pytest.mark.system
def test_a_token_of_an_endpoint_is_kept(endpoint):
    endpoint.answer = {"expires_in": 300}
    found = of(endpoint)
    assert [found.token().text for _ in range(3)] == ["token-1"] * 3
    authorization, form = endpoint.requests[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me:s3"
    assert form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    assert "token-1" not in repr(found.token())


@pytest.mark.system
def test_a_token_is_replaced_when_its_share_is_used(endpoint):
    endpoint.answer = {"expires_in": 1e-9}
    found = of(endpoint)
    assert [found.token().text for _ in range(2)] == ["token-1", "token-2"]
    endpoint.answer = {"expires_in": 300}
    found = of(endpoint)
    assert [found.token(share).text for share in (1, 1, 0)] == ["token-3", "token-3", "token-4"]


@pytest.mark.system
def test_client_id_and_secret_may_be_url_encoded(endpoint):
    keys = {"sasl.oauthbearer.client.credentials.client.id": "m e",
            "sasl.oauthbearer.client.credentials.client.secret": "s:3/"}  # fmt: skip
    of(endpoint, **keys, **{"sasl.oauthbearer.header.urlencode": "true"}).token()
    authorization, _ = endpoint.requests[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"m+e:s%3A3%2F"


@pytest.mark.system
def test_the_authority_of_an_endpoint_with_tls(tmp_path):
    files = Files(tmp_path)
    jaas = JAAS.replace(";", f' ssl.truststore.location="{files.trust}";')
    with TokenEndpoint(str(files.key("endpoint.pem"))) as endpoint:
        assert of(endpoint, **{"sasl.jaas.config": jaas}).token().text == "token-1"
        with pytest.raises(TokenError, match="cannot be reached: SSLCertVerificationError"):
            of(endpoint).token()


@pytest.mark.system
@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        (401, {}, "HTTP status 401"),
        (200, {"access_token": None}, "no access_token"),
        (200, {"access_token": "a\r\nb"}, "no access_token"),
        (200, {"expires_in": "soon"}, "no usable expires_in"),
        (200, {"expires_in": -5}, "no usable expires_in"),
        (200, {"access_token": jwt(exp=10**400)}, "a token whose exp is not a time"),
    ],
)
def test_an_endpoint_without_a_token(endpoint, status, answer, text):
    endpoint.status, endpoint.answer = status, answer
    with pytest.raises(TokenError, match=text) as caught:
        of(endpoint).token()
    assert not caught.value.retriable
    assert "s3" not in str(caught.value)


@pytest.mark.system
def test_an_endpoint_out_of_reach():
    with pytest.raises(TokenError, match="cannot be reached: ConnectionRefusedError") as caught:
        tokens({TOKEN_URL: "http://127.0.0.1:1/", "sasl.jaas.config": JAAS}).token()
    assert caught.value.retriable


def test_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("a.b.c\n")
    assert tokens({TOKEN_URL: file.as_uri()}).token()[:2] == ("a.b.c", 3600)
    file.write_text(unsigned("alice", 300))
    assert 290 < tokens({TOKEN_URL: file.as_uri()}).token().left_s <= 300
    file.write_text(jwt(exp=math.inf))
    with pytest.raises(TokenError, match="exp is not a time"):
        tokens({TOKEN_URL: file.as_uri()}).token()
    file.write_text("two words")
    with pytest.raises(TokenError, match="holds no token"):
        tokens({TOKEN_URL: file.as_uri()}).token()
    with pytest.raises(TokenError, match="cannot be read"):
        tokens({TOKEN_URL: (tmp_path / "none").as_uri()}).token()


def test_an_unsecured_token():
    jaas = 'x required unsecuredLoginStringClaim_sub="alice" extension_who="me";'
    found = tokens({"sasl.jaas.config": jaas})
    head, body, signature = found.token().text.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 3600
    assert not signature
    assert found.extensions == {"who": "me"}


def test_a_request_that_blocks_does_not_hold_up_others_permanently(monkeypatch):
    found = tokens({"sasl.login.read.timeout.ms": "10", "sasl.login.connect.timeout.ms": "10",
                    "sasl.jaas.config": 'x required unsecuredLoginStringClaim_sub="a";'})  # fmt: skip
    started, ends = Event(), Event()
    monkeypatch.setattr(found, "_obtain", lambda: started.set() or ends.wait(30))
    with ThreadPoolExecutor(1) as threads:
        blocked = threads.submit(found.token)
        try:
            assert started.wait(30)
            with pytest.raises(TokenError, match="has not come") as caught:
                found.token()
        finally:
            ends.set()
        assert blocked.result(30)
    assert caught.value.retriable


@pytest.mark.system
def test_an_endpoint_that_sends_a_byte_from_time_to_time(endpoint):
    endpoint.drips = True
    timeouts = {"sasl.login.read.timeout.ms": "200", "sasl.login.connect.timeout.ms": "200"}
    with pytest.raises(TokenError, match=r"returned no token within 0.2 s") as caught:
        of(endpoint, **timeouts).token()
    assert caught.value.retriable


@pytest.mark.system
def test_an_endpoint_that_sends_too_much(endpoint):
    endpoint.answer = {"more": "x" * 2**20}
    with pytest.raises(TokenError, match="returned more than 1048576 bytes") as caught:
        of(endpoint).token()
    assert not caught.value.retriable


@pytest.mark.system
@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b"EHLO\r\n"]
)
async def test_an_endpoint_that_breaks_off_its_response(head):
    async def respond(reader, writer):
        await reader.readuntil(b"grant_type=client_credentials&scope=a+b")
        writer.write(head)
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        found = tokens({TOKEN_URL: url, "sasl.jaas.config": JAAS})
        with pytest.raises(TokenError, match=r"the token endpoint at 127\.0\.0\.1:") as caught:
            await asyncio.to_thread(found.token)
    assert caught.value.retriable


def test_an_endpoint_without_a_valid_url():
    with pytest.raises(TokenError, match="is not valid") as caught:
        tokens({TOKEN_URL: "http://127.0.0.1:port/", "sasl.jaas.config": JAAS}).token()
    assert not caught.value.retriable
