"""Responses to the requests of the console, from a simulated gateway."""

import asyncio
import json
from functools import partial
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.configuration import Address
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import refused
from penstock.engine.workers.processes.worker import WorkerState
from penstock.gateway.observing.console import console as module
from penstock.gateway.observing.console.console import CHANGED_MAX, WRONG_LOGINS_MAX, Console
from penstock.gateway.observing.console.peer_request import PeerError
from penstock.gateway.observing.console.peer_state import decode
from penstock.gateway.observing.console.peers import Peers
from penstock.gateway.observing.console.recent_refusals import ROWS_MAX
from penstock.gateway.observing.metrics.access import Access
from penstock.gateway.observing.metrics.broker_checks import Reached
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.http_server import EventStream, HttpResponse, Request
from penstock.gateway.observing.metrics.measured_gateway import ConnectionState, ProducerFigures
from penstock.gateway.refusal_log import Refused
from penstock.policy import Record
from tests.gateway.observing.console.event_stream import events
from tests.gateway.observing.console.states import CountingGateway, generated
from tests.gateway.observing.metrics.schedules import schedule
from tests.kafka.records.encoding import encode_batch

PLAN = TopicPlan(topic="orders", validators=("a.V",))
OBSERVED = TopicPlan(topic="seen", validators=("a.V",), mode="observe")


def batch(count):
    return encode_batch([Record(0, None, b"x")] * count)


@pytest.fixture
def gateway():
    configuration = SimpleNamespace(
        listener="PLAINTEXT://127.0.0.1:9192",
        upstream_servers=[Address("kafka", 9092)],
        path="/etc/penstock.properties",
        properties={},
    )
    ready = schedule(WorkerState.READY, WorkerState.SPARE, waiting=5, outstanding=7)
    ready.judging = [1]
    return SimpleNamespace(
        configuration=configuration,
        connections=[SimpleNamespace(state=ConnectionState.OPEN)] * 3,
        connections_max=100,
        budget=SimpleNamespace(used_bytes=7, max_bytes=70),
        producers=ProducerFigures(3, topics=0, kept_bytes=5, evicted=6, translated=4),
        schedules=[ready],
        all_schedules=[ready],
        settings_position=5,
        plan_digests={"orders": "0123456789ab", "a": "ba9876543210"},
        settings_are_missing=False,
        state_writes={},
        audit_trail=None,
        is_loaded=False,
        is_listening=True,
        brokers_out_of_reach=(),
        is_ending=False,
    )


@pytest.fixture
def counts():
    return GatewayCounts(records_max=1000)


@pytest.fixture
def console(gateway, counts):
    checks = SimpleNamespace(
        brokers={1: Reached(Address("kafka", 9092), "", 0.0), 2: Reached(Address("k", 1), "no", 0)}
    )
    return Console(gateway, counts, checks, now=lambda: 1234.5, wrong_login_s=0.0)


def request(path="/", method="GET", body=b"", **headers):
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request(method, path, tuple(pairs), body)


async def fetch(console, path, access=None, **headers):
    return await console.paths(access or Access(None))[path](request(path, **headers))


async def read(console, path):
    answer = await fetch(console, path)
    assert (answer.status, answer.content_type) == (200, "application/json")
    return json.loads(answer.body)


def refusal(number=0, topic="orders", **more):
    return Refused(topic, 3, "app", refused(87, f"no {number}", "a.V"), records=5, **more)


async def test_the_state(console, counts):
    counts.accepted(PLAN, batch(8))
    counts.refused("orders", batch(5), refused(87, "no", "a.V"))
    counts.observed(OBSERVED, batch(2), refused(87, "no", "a.V"))
    console.refused(refusal())
    console.reloaded(worked=False, why_not="x.properties: \x1b is wrong")
    state = await read(console, "/api/state")

    assert state["api"] == 1
    assert state["at"] == 1234.5
    assert state["gateway"]["listener"] == "PLAINTEXT://127.0.0.1:9192"
    assert state["totals"] == {"accepted": 8, "refused": 5, "would_refuse": 2}
    assert state["topics"] == [
        {"topic": "orders", "records": {"accepted": 8, "refused": 5}},
        {"topic": "seen", "records": {"would_refuse": 2}},
    ]
    assert [row["message"] for row in state["refusals"]["rows"]] == ["no 0"]
    assert state["history"] == {"seconds": 10.0, "points_max": 360, "points": []}
    assert state["reload"] == {
        "at": 1234.5, "worked": False, "why_not": "x.properties: \ufffd is wrong",
    }  # fmt: skip
    assert state["connections"] == {"limit": 100, "states": {
        "connecting": 0, "open": 3, "paused": 0, "ending": 0, "closing": 0}}  # fmt: skip
    assert state["workers"] == {
        "states": {"ready": 1, "spare": 1}, "limit": 3, "waiting": 5, "sent": 2,
    }  # fmt: skip
    assert [(broker["node"], broker["reachable"]) for broker in state["brokers"]] == [
        (1, True),
        (2, False),
    ]
    assert state["ready"] == {
        "is_ready": False,
        "missing": ["policies: they have not been loaded yet"],
        "troubles": ["broker 2 at k:1 cannot be reached: no"],
    }
    assert state["audit_trail"] is None
    assert state["plans"] == [
        {"topic": "a", "plan": "ba9876543210"},
        {"topic": "orders", "plan": "0123456789ab"},
    ]


async def test_the_state_is_bounded(console):
    for number in range(5000):
        console.refused(refusal(number))
        if number % 40 == 0:
            console._refusals.look()
    state = await read(console, "/api/state")
    assert len(state["refusals"]["rows"]) == ROWS_MAX


async def test_events(console, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    console.refused(refusal(1))
    running = asyncio.create_task(console.run())
    async with asyncio.timeout(60):
        stream = await fetch(console, "/api/events")
        assert isinstance(stream, EventStream)
        assert stream.content_type == "text/event-stream"
        [(name, state)] = events(await anext(stream.parts))
        assert name == "state"
        assert [row["message"] for row in state["refusals"]["rows"]] == ["no 1"]

        for number in range(20):
            console.refused(refusal(number % 2))
        console.reloaded(worked=True)
        seen = {}
        while {"refusals", "figures", "reload", "point"} - seen.keys():
            for name, data in events(await anext(stream.parts)):
                seen.setdefault(name, data)
        running.cancel()
        await stream.parts.aclose()

    assert {row["message"]: row["count"] for row in seen["refusals"]["rows"]} == {
        "no 0": 10, "no 1": 11,
    }  # fmt: skip
    assert seen["figures"]["connections"]["limit"] == 100
    assert seen["reload"] == {"at": 1234.5, "worked": True, "why_not": ""}


async def test_an_event_is_bounded(console):
    parts = (await fetch(console, "/api/events")).parts
    await anext(parts)
    for number in range(200):
        console.refused(refusal(number))
        console._refusals._new = 0
    console._publish_refusals()

    [(_, data)] = events(await anext(parts))
    assert len(data["rows"]) == CHANGED_MAX
    assert data["rows"][-1]["message"] == "no 199"


async def test_the_number_of_event_streams_is_limited(console):
    streams = []
    while isinstance(answer := await fetch(console, "/api/events"), EventStream):
        await anext(answer.parts)
        streams.append(answer.parts)
    assert answer.status == 503
    assert dict(answer.headers)["Retry-After"]
    await streams[0].aclose()
    assert isinstance(await fetch(console, "/api/events"), EventStream)


async def test_an_error_does_not_end_sampling(console, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    monkeypatch.setattr(module, "_AFTER_ERROR_S", 0.001)
    failed = asyncio.Event()

    def fail():
        failed.set()
        raise ZeroDivisionError

    console._sample = fail
    with capture_logs() as lines:
        running = asyncio.create_task(console.run())
        async with asyncio.timeout(60):
            await failed.wait()
            failed.clear()
            await failed.wait()
        assert not running.done()
        running.cancel()
    assert lines[0]["action"] == "console"


async def test_logging_in(console):
    access = Access("secret", without_token=["/", "/login"], cookie="penstock_1")
    page = await fetch(console, "/", access)
    assert page.status == 401
    assert b'name="token"' in page.body
    assert b"This is not the token" not in page.body
    assert (await fetch(console, "/login", access)).body == page.body

    login = console.posts(access)["/login"]
    wrong = await login(request("/login", "POST", b"token=other"))
    assert wrong.status == 401
    assert b"This is not the token" in wrong.body
    assert b"Set-Cookie" not in dict(wrong.headers)
    right = await login(request("/login", "POST", b"token=secret"))
    headers = dict(right.headers)
    assert (right.status, headers["Location"]) == (303, "./")
    cookie = headers["Set-Cookie"].partition(";")[0]

    page = await fetch(console, "/", access, cookie=cookie)
    assert (page.status, b'action="logout">' in page.body) == (200, True)
    out = await console.posts(access)["/logout"](request("/logout", "POST", cookie=cookie))
    assert dict(out.headers)["Set-Cookie"].startswith("penstock_1=; Max-Age=0;")
    assert (await fetch(console, "/", access, cookie=cookie)).status == 401


async def test_requests_with_wrong_tokens_leave_connections_to_others(console):
    """Each occupies a connection of the listener for a second, and probes need connections."""
    access = Access("secret", without_token=["/", "/login"])
    login = console.posts(access)["/login"]
    console._wrong_login_s = 60.0
    wrong = request("/login", "POST", b"token=other")
    async with asyncio.timeout(30):
        guesses = [asyncio.create_task(login(wrong)) for _ in range(WRONG_LOGINS_MAX)]
        await asyncio.sleep(0)
        for given in (wrong, request("/login", "POST", b"token=secret")):  # it is not looked at
            answer = await login(given)
            assert (answer.status, dict(answer.headers)["Retry-After"]) == (429, "1")
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)
        assert (await login(request("/login", "POST", b"token=secret"))).status == 303


async def test_without_a_token_there_is_no_login(console):
    assert console.posts(Access(None)) == {}
    assert "/login" not in console.paths(Access(None))
    page = await fetch(console, "/")
    assert b'action="logout" hidden' in page.body


async def test_each_response_is_for_the_requested_page_only(console):
    for path, handler in console.paths(Access(None)).items():
        answer = await handler(request(path))
        if isinstance(answer, HttpResponse):
            headers = dict(answer.headers)
            assert "default-src 'none'" in headers["Content-Security-Policy"], path
            policy = headers["Content-Security-Policy"]
            assert "unsafe" not in policy
            for directive in ("frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'",
                        "require-trusted-types-for 'script'", "script-src 'self';"):  # fmt: skip
                assert directive in policy, path
            assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert headers["Referrer-Policy"] == "same-origin"
            assert not [name for name in headers if name.lower().startswith("access-control")]


class GivenPeers(Peers):
    """Peers whose states are given."""

    def __init__(self, *states):
        super().__init__([Address(f"gateway-{number}", 9100) for number in range(2, 4)], None, "x")
        self.given = dict(zip(self.all, states, strict=True))
        for peer in self.all:
            peer.read = partial(self._state, peer)

    async def _state(self, peer, _):
        if isinstance(self.given[peer], Exception):
            raise self.given[peer]
        return self.given[peer]


@pytest.fixture
def peers():
    counting = CountingGateway(2)
    for event in generated(1):
        counting.play(event)
    return GivenPeers(counting.state(), PeerError("Connection refused"))


@pytest.fixture
def merged(gateway, counts, peers):
    checks = SimpleNamespace(brokers={1: Reached(Address("kafka", 9092), "", 0.0)})
    gateway.is_loaded = True
    return Console(gateway, counts, checks, now=lambda: 1234.5, peers=lambda _: peers)


async def test_the_state_of_all_gateways(merged, counts, peers):
    for peer in peers.all:
        await peers.read(peer)
    counts.refused("orders", batch(5), refused(87, "no", "a.V"))
    merged.refused(refusal())
    merged._publish_refusals()
    state = await read(merged, "/api/state")
    theirs = peers.given[peers.all[0]]

    assert state["totals"]["refused"] == 5 + theirs.head["totals"]["records"]["refused"]
    topics = {entry["topic"]: entry["records"] for entry in state["topics"]}
    assert topics["orders"]["refused"] == 5 + theirs.topics["orders"]["refused"]
    rows = state["refusals"]["rows"]
    assert len(rows) == len(theirs.rows) + 1
    assert "no 0" in {row["message"] for row in rows}
    assert len({row["id"] for row in rows}) == len(rows)
    assert state["connections"]["states"]["open"] == 6
    assert [(entry["name"], entry["answers"], entry["why_not"]) for entry in state["gateways"]] == [
        ("this gateway", True, ""),
        ("gateway-2:9100", True, ""),
        ("gateway-3:9100", False, "Connection refused"),
    ]
    assert state["ready"] == {
        "is_ready": True,
        "missing": [],
        "troubles": ["gateway-3:9100 does not answer: Connection refused"],
    }
    assert state["api"] == 1
    assert state["history"]["points"] == []


async def test_a_peer_reads_the_state_of_this_gateway_alone(merged, peers):
    await peers.read(peers.all[0])
    merged.refused(refusal())
    answer = await fetch(merged, "/api/own")
    assert answer.content_type == "application/x-ndjson"
    own = await decode(answer.body)
    assert [row["message"] for row in own.rows] == ["no 0"]
    assert own.topics == {}
    assert own.head["connections"]["states"]["open"] == 3
    assert own.head["run"] == merged._id


async def test_events_of_all_gateways(merged, counts, peers, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.001)
    monkeypatch.setattr(peers, "_every_s", 0.001)
    running = asyncio.create_task(merged.run())
    seen = {}
    async with asyncio.timeout(60):
        stream = await fetch(merged, "/api/events")
        await anext(stream.parts)
        merged.refused(refusal())
        counting = CountingGateway(3)
        counting.play(("late", "c", "too late", 8, False, 0.1))
        reload = {"at": 1000.0, "worked": False, "why_not": "broken"}
        peers.given[peers.all[1]] = counting.state(reload=reload)
        messages = set()
        while {"figures", "point", "reload"} - seen.keys() or len(messages) < 2:
            for name, data in events(await anext(stream.parts)):
                seen[name] = data
                if name == "refusals":
                    messages |= {row["message"] for row in data["rows"]} & {"no 0", "too late"}
        running.cancel()
        await stream.parts.aclose()
    assert seen["reload"]["why_not"] == "gateway-3:9100: broken"
    assert len(seen["figures"]["gateways"]) == 3
