"""Access to the metrics listener: tokens, sessions, host names, pages of other origins."""

import pytest

from penstock.gateway.observing.metrics.access import SESSION_S, SESSIONS_MAX, Access
from penstock.gateway.observing.metrics.http_server import Request

TOKEN = "a-token-ü"


class Clock:
    at = 0.0

    def __call__(self):
        return self.at


def get(path="/", **headers):
    named = {"host": "127.0.0.1:9100", **headers}
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
    return Request("GET", path, tuple(pairs))


def post(body, **headers):
    return get("/login", **headers)._replace(method="POST", body=body)


def status(access, request):
    answer = access.refuse(request)
    return 200 if answer is None else answer.status


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:9100", 200),
        ("127.0.0.1", 200),
        ("127.9.9.9:1", 200),
        ("localhost:9100", 200),
        ("LOCALHOST.:8080", 200),
        ("a.localhost", 200),
        ("[::1]:9100", 200),
        ("metrics.internal:9100", 200),
        ("evil.example:9100", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example#localhost", 421),
        ("localhost@evil.example", 421),
        ("[::1]evil.example", 421),
        ("localhost:9100.evil.example", 421),
        ("localhost:evil.example", 421),
        ("", 421),
    ],
)
def test_without_a_token_only_host_names_of_this_machine_are_served(host, expected):
    assert status(Access(None, host="metrics.internal"), get(host=host)) == expected


def test_http_1_0_requests_need_no_host():
    assert Access(None).refuse(Request("GET", "/metrics")) is None


def test_with_a_token_other_names_are_served():
    access = Access(TOKEN)
    assert status(access, get(host="gateway.example")) == 401
    assert status(access, get(host="gateway.example", authorization=f"Bearer {TOKEN}")) == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer  {TOKEN}"}, 200),
        ({"authorization": "Bearer other"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"cookie": f"penstock={TOKEN}"}, 401),
        ({"cookie": "penstock="}, 401),
    ],
)
def test_a_token_is_required_and_compared(headers, expected):
    assert status(Access(TOKEN, without_token=["/livez"]), get(**headers)) == expected
    assert status(Access(TOKEN, without_token=["/livez"]), get("/livez", **headers)) == 200


def test_two_tokens_are_rejected():
    twice = get()._replace(headers=((b"authorization", f"Bearer {TOKEN}".encode()),) * 2)
    assert status(Access(TOKEN), twice) == 401


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:9100"}, 200),
        ({"origin": "http://127.0.0.1:9101"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_pages_of_another_origin_are_rejected(headers, expected):
    assert status(Access(None), get("/api/events", **headers)) == expected


def test_pages_of_another_origin_cannot_log_in():
    access = Access(TOKEN, without_token=["/login"])
    navigation = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert status(access, post(b"", **navigation)) == 403
    assert status(access, post(b"", origin="http://127.0.0.1:9100")) == 200


def test_a_session_is_served_until_it_expires():
    clock = Clock()
    access = Access(TOKEN, cookie="penstock_9100", clock=clock)
    assert access.open_session(post(b"token=other")) is None
    assert access.open_session(post(b"token=")) is None
    assert access.open_session(post(b"")) is None
    assert access.open_session(post(b"\xff")) is None
    assert access.open_session(post(b"a=1&b=2&token=a-token-%C3%BC")) is None

    cookie = access.open_session(post(b"token=a-token-%C3%BC"))
    assert cookie.endswith("; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict")
    given = cookie.partition(";")[0]
    assert TOKEN not in given
    assert status(access, get(cookie=f"a=b; {given}")) == 200
    assert status(access, get(cookie=given.replace("9100", "9101"))) == 401
    assert status(access, get(cookie=given[:-1])) == 401

    clock.at = SESSION_S
    assert status(access, get(cookie=given)) == 401


def test_logging_out_ends_the_session():
    access = Access(TOKEN, clock=Clock())
    given = access.open_session(post(b"token=a-token-%C3%BC")).partition(";")[0]
    other = access.open_session(post(b"token=a-token-%C3%BC")).partition(";")[0]
    assert access.close_session(post(b"", cookie=given)).startswith("penstock=; Max-Age=0;")

    assert status(access, get(cookie=given)) == 401
    assert status(access, get(cookie=other)) == 200


def test_the_number_of_sessions_is_bounded():
    clock = Clock()
    access = Access(TOKEN, clock=clock)
    opened = []
    for _ in range(SESSIONS_MAX + 1):
        clock.at += 1
        opened.append(access.open_session(post(b"token=a-token-%C3%BC")).partition(";")[0])

    assert status(access, get(cookie=opened[0])) == 401
    assert status(access, get(cookie=opened[1])) == 200
    assert len(access._sessions) == SESSIONS_MAX


def test_without_a_token_there_is_no_session():
    access = Access(None)
    assert not access.needs_token
    assert access.open_session(post(b"token=")) is None
