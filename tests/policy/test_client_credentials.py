"""Requests for tokens, and what a response may have."""

import json
import math
from base64 import b64decode
from urllib.parse import parse_qs

import pytest

from penstock.policy.client_credentials import (
    InvalidTokenError,
    lifetime_of,
    read_token,
    token_request,
)
from tests.jwts import jwt

DAY_S = 86_400


def response(**fields):
    return json.dumps({"access_token": "token", **fields}).encode()


def test_a_request():
    body, headers = token_request("m e", "s:3/", "a b")
    assert parse_qs(body.decode()) == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    assert b64decode(headers["Authorization"].removeprefix("Basic ")) == b"m e:s:3/"
    body, headers = token_request("m e", "s:3/", "", urlencoded=True)
    assert parse_qs(body.decode()) == {"grant_type": ["client_credentials"]}
    assert b64decode(headers["Authorization"].removeprefix("Basic ")) == b"m+e:s%3A3%2F"


@pytest.mark.parametrize(
    ("fields", "lifetime"),
    [({"expires_in": 300}, 300), ({"expires_in": "300"}, 300), ({"expires_in": 1e-9}, 1e-9),
     ({"expires_in": 40 * DAY_S}, 30 * DAY_S), ({}, 3600), ({"expires_in": None}, 3600)],
)  # fmt: skip
def test_a_lifetime(fields, lifetime):
    assert read_token(response(**fields), 0) == ("token", lifetime)


@pytest.mark.parametrize(
    ("token", "lifetime"),
    [(jwt(exp=5000), 4000), (jwt(exp=500), 0), (jwt(exp=10**12), 30 * DAY_S), (jwt(), 3600),
     ("opaque", 3600), ("a.b.c", 3600), ("a.W10.c", 3600), ("a." + "W1tb" * 20_000, 3600)],
)  # fmt: skip
def test_the_lifetime_may_be_in_the_token(token, lifetime):
    assert lifetime_of(token, 1000) == lifetime


@pytest.mark.parametrize("exp", [10**400, math.inf, -math.inf, math.nan])
def test_a_token_that_expires_at_no_time(exp):
    with pytest.raises(InvalidTokenError, match="exp is not a time"):
        read_token(response(access_token=jwt(exp=exp)), 0)


@pytest.mark.parametrize(
    "lifetime", ["\u00b2", "1" * 5000, 10**400, math.nan, math.inf, 0, -1, "x", [], "1e3"]
)
def test_an_invalid_lifetime(lifetime):
    with pytest.raises(InvalidTokenError, match="no usable expires_in"):
        read_token(response(expires_in=lifetime), 0)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"\xff", b"[" * 100_000, b"{}", response(access_token=None),
     response(access_token="a\r\nb"), response(access_token=""),
     response(access_token="a" * 65_537)],
)  # fmt: skip
def test_a_response_without_a_token(body):
    with pytest.raises(InvalidTokenError, match="returned no access_token"):
        read_token(body, 0)
