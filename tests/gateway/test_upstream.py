"""Connections to brokers, and requests for their addresses while a broker cannot be reached."""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.configuration import Address
from penstock.gateway.listening.addresses import Addresses
from penstock.gateway.upstream import CONNECTING_MAX, Upstream
from penstock.kafka.cluster import brokers


class Places:
    def place(self, _node):
        return None

    def found(self, _node):
        pass


@contextlib.asynccontextmanager
async def listening(monkeypatch):
    """A broker that accepts connections, and an address that refuses them."""
    there, away = Address("there", 9092), Address("away", 9092)

    async def create_connection(protocol, host, port, **tls):
        assert tls == {"ssl": None, "server_hostname": None}
        if Address(host, port) != there:
            raise ConnectionRefusedError("refused")
        return host, protocol()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
    yield there, away


def upstream(bootstrap, known=()):
    """An `Upstream` that knows brokers, the attempts that it reports, and its tasks."""
    configuration = SimpleNamespace(upstream_properties={}, folder=Path(), path=Path("file"))
    started, attempts = [], []
    made = Upstream(configuration, None, started.append)
    made.watch(lambda address, reason: attempts.append((address, bool(reason))))
    made.addresses = Addresses(bootstrap=bootstrap, advertised_host="gateway", places=Places())
    for node, address in known:
        made.addresses.learn(node, address)
    return made, attempts, started


def close(coroutines):
    for coroutine in coroutines:
        coroutine.close()


def test_a_connection_to_any_broker_uses_the_first_address_that_accepts(monkeypatch):
    async def run():
        async with listening(monkeypatch) as (there, away):
            made, attempts, started = upstream([away, there])
            assert await made.connect(None, asyncio.Protocol()) == there.host
            assert (attempts, started) == ([(away, True), (there, False)], [])

    asyncio.run(run())


def test_a_connection_to_a_broker_uses_only_its_own_address(monkeypatch):
    async def run():
        async with listening(monkeypatch) as (there, away):
            made, attempts, started = upstream([there], [(1, away)])
            assert await made.connect(1, asyncio.Protocol()) is None
            assert attempts == [(away, True)]
            assert len(started) == 1
            close(started)

    asyncio.run(run())


def test_a_broker_that_is_not_known_is_named_in_the_log(monkeypatch):
    async def run():
        async with listening(monkeypatch) as (there, _):
            made, attempts, started = upstream([there])
            with capture_logs() as lines:
                assert await made.connect(7, asyncio.Protocol()) is None
            assert [(line["event"], line["node"]) for line in lines] == [("broker is not known", 7)]
            assert attempts == []
            close(started)

    asyncio.run(run())


def test_no_connection_is_opened_before_the_gateway_listens():
    async def run():
        made, attempts, started = upstream([])
        made.addresses = None
        assert await made.connect(None, asyncio.Protocol()) is None
        assert (attempts, dict(made.known_brokers)) == ([], {})
        close(started)

    asyncio.run(run())


def test_addresses_are_requested_once_for_many_attempts_that_fail(monkeypatch):
    async def run():
        async with listening(monkeypatch) as (_, away):
            made, attempts, started = upstream([away])
            for _ in range(5):
                await made.connect(None, asyncio.Protocol())
            assert (len(attempts), len(started)) == (5, 1)
            close(started)

    asyncio.run(run())


def test_a_gateway_that_stops_requests_no_addresses(monkeypatch):
    async def run():
        async with listening(monkeypatch) as (_, away):
            made, _, started = upstream([away])
            made.end()
            assert await made.connect(None, asyncio.Protocol()) is None
            assert started == []

    asyncio.run(run())


def test_new_addresses_replace_the_known_addresses(monkeypatch):
    moved = Address("moved", 9092)
    monkeypatch.setattr(
        brokers, "describe", lambda *_: brokers.ClusterDescription("cluster", {1: moved})
    )
    made, *_ = upstream([], [(1, Address("before", 9092))])
    assert list(asyncio.run(made.rediscover())) == [1]
    assert dict(made.known_brokers) == {1: moved}


def test_a_cluster_that_does_not_respond_changes_no_address(monkeypatch):
    def unreachable(*_):
        raise brokers.UnreachableError("no broker responds")

    monkeypatch.setattr(brokers, "describe", unreachable)
    known = Address("before", 9092)
    made, *_ = upstream([], [(1, known)])
    with capture_logs() as lines:
        assert list(asyncio.run(made.rediscover())) == []
    assert dict(made.known_brokers) == {1: known}
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("cluster cannot be reached", "no broker responds")
    ]
    with pytest.raises(brokers.UnreachableError):
        asyncio.run(made.describe(1.0))


def test_few_connections_to_a_broker_are_made_at_a_time(monkeypatch):
    """Others wait for these, and not for those to another broker."""
    away, there = Address("away", 9092), Address("there", 9092)
    began = []

    async def create_connection(protocol, host, port, **_):
        began.append(host)
        if host == there.host:
            return host, protocol()
        return await asyncio.get_running_loop().create_future()

    async def run():
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create_connection)
        made, attempts, _ = upstream([there], [(1, away)])
        waiting = [
            asyncio.ensure_future(made.connect(1, asyncio.Protocol()))
            for _ in range(2 * CONNECTING_MAX)
        ]
        while began.count(away.host) < CONNECTING_MAX:
            await asyncio.sleep(0)
        assert await made.connect(None, asyncio.Protocol()) == there.host
        assert began.count(away.host) == CONNECTING_MAX
        waiting[0].cancel()
        while began.count(away.host) == CONNECTING_MAX:
            await asyncio.sleep(0)
        assert began.count(away.host) == CONNECTING_MAX + 1
        assert attempts == [(there, False)]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(run())
