"""Tokens, from an endpoint, a file, and made up."""

import base64
import http.server
import json
import threading
import time
import urllib.parse

import pytest

from penstock.client.errors import LoginError
from penstock.client.oauth import token_provider
from penstock.configuration import ConfigurationError

URL = "sasl.oauthbearer.token.endpoint.url"
JAAS = 'x.OAuthBearerLoginModule required clientId="me" clientSecret="s3" scope="a b";'


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Issues `token-1`, `token-2`, ..."""

    asked: list = []
    status, answer = 200, {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], urllib.parse.parse_qs(body)))
        self.send_response(self.status)
        self.end_headers()
        token = {"access_token": f"token-{len(self.asked)}"} if self.status == 200 else {}
        self.wfile.write(json.dumps({**token, **self.answer}).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    class One(Endpoint):
        asked: list = []

    with http.server.HTTPServer(("127.0.0.1", 0), One) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        One.url = f"http://127.0.0.1:{server.server_port}/token"
        yield One
        server.shutdown()
        thread.join()


@pytest.mark.system
async def test_a_token_of_an_endpoint_is_kept(endpoint):
    endpoint.answer = {"expires_in": 300}
    provider = token_provider({URL: endpoint.url, "sasl.jaas.config": JAAS}, "")
    assert [await provider.token() for _ in range(3)] == ["token-1"] * 3
    authorization, form = endpoint.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me:s3"
    assert form == {"grant_type": ["client_credentials"], "scope": ["a b"]}


@pytest.mark.system
async def test_an_expired_token_is_replaced(endpoint):
    endpoint.answer = {"expires_in": 0.01}
    keys = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s3"}
    provider = token_provider({URL: endpoint.url, **keys}, "")
    assert await provider.token() == "token-1"
    time.sleep(0.02)
    assert await provider.token() == "token-2"


@pytest.mark.system
@pytest.mark.parametrize(("status", "text"), [(401, "HTTP status 401"), (200, "no access_token")])
async def test_an_endpoint_without_a_token(endpoint, status, text):
    endpoint.status, endpoint.answer = status, {"access_token": None}
    provider = token_provider({URL: endpoint.url, "sasl.jaas.config": JAAS}, "")
    with pytest.raises(LoginError, match=text) as caught:
        await provider.token()
    assert not caught.value.retriable
    assert "s3" not in str(caught.value)


@pytest.mark.system
async def test_an_endpoint_out_of_reach():
    provider = token_provider({URL: "http://127.0.0.1:1/", "sasl.jaas.config": JAAS}, "")
    with pytest.raises(LoginError, match="cannot be reached") as caught:
        await provider.token()
    assert caught.value.retriable


async def test_a_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("a.b.c\n")
    provider = token_provider({URL: file.as_uri()}, "")
    assert await provider.token() == "a.b.c"
    with pytest.raises(LoginError, match="cannot be read"):
        await token_provider({URL: (tmp_path / "none").as_uri()}, "").token()


async def test_an_unsecured_token():
    jaas = 'x required unsecuredLoginStringClaim_sub="alice" extension_who="me";'
    provider = token_provider({"sasl.jaas.config": jaas}, "")
    head, body, signature = (await provider.token()).split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 3600
    assert not signature
    assert provider.extensions() == {"who": "me"}


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, "upstream.sasl.oauthbearer.token.endpoint.url"),
        ({URL: "ftp://a/b", "sasl.jaas.config": JAAS}, "must begin with https:"),
        ({URL: "https://a/b"}, "needs clientId and clientSecret"),
    ],
)
def test_what_is_missing_is_named(properties, text):
    with pytest.raises(ConfigurationError, match=text):
        token_provider(properties, "f: upstream.")
