"""Checks of whether brokers can be reached."""

import asyncio
import contextlib
import socket

import pytest

from penstock.configuration import Address, ConfigurationError
from penstock.gateway.observing.metrics import broker_checks
from penstock.gateway.observing.metrics.broker_checks import BrokerChecks
from penstock.kafka.local import free_ports

pytestmark = pytest.mark.system


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def all_of(known):
    """A cluster that returns all known brokers."""

    async def named():
        return known.keys()

    return named


@contextlib.asynccontextmanager
async def running(checks):
    task = asyncio.create_task(checks.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_brokers_that_stop_and_start_are_reported(monkeypatch):
    monkeypatch.setattr(broker_checks, "EVERY_S", 0.01)
    listening = socket.create_server(("127.0.0.1", free_ports()[0]))
    known = {7: Address(*listening.getsockname())}
    checks = BrokerChecks(lambda: known, all_of(known), None)
    async with running(checks):
        await until(lambda: 7 in checks.brokers)
        assert not checks.brokers[7].why_not

        listening.close()
        await until(lambda: checks.brokers[7].why_not)
        assert "111" in checks.brokers[7].why_not  # connection refused

        listening = socket.create_server(known[7])
        await until(lambda: not checks.brokers[7].why_not)
        del known[7]
        await until(lambda: not checks.brokers)
    listening.close()


async def test_connections_of_clients_count_as_checks_of_an_address():
    known = {1: Address("a", 1), 2: Address("b", 2)}
    checks = BrokerChecks(lambda: known, all_of(known), None)
    checks.connected(Address("b", 2), "No route to host")
    checks.connected(Address("bootstrap", 9092), "Connection refused")  # nobody knows whose it is

    assert {node: broker.why_not for node, broker in checks.brokers.items()} == {
        2: "No route to host"
    }

    checks.connected(Address("b", 2))
    assert not checks.brokers[2].why_not


async def test_a_broker_that_clients_reach_is_not_checked():
    """An attempt would fail: nothing listens at the address."""
    known = {1: Address("127.0.0.1", 1), 2: Address("127.0.0.1", 1)}
    checks = BrokerChecks(lambda: {1: known[1]}, all_of(known), None)
    checks.connected(known[1])
    checks._known = lambda: {1: known[1], 2: Address("127.0.0.1", 2)}
    async with running(checks):
        await until(lambda: 2 in checks.brokers)

    assert checks.brokers[2].why_not
    assert not checks.brokers[1].why_not


async def test_a_removed_broker_is_left_out_until_it_returns(monkeypatch):
    monkeypatch.setattr(broker_checks, "EVERY_S", 0.01)
    monkeypatch.setattr(broker_checks, "NAMED_EVERY_S", 0.01)
    listening = socket.create_server(("127.0.0.1", 0))
    known = {7: Address(*listening.getsockname()), 8: Address("127.0.0.1", 1)}
    answers = {7, 8}

    async def named():
        return answers

    checks = BrokerChecks(lambda: known, named, None)
    async with running(checks):
        await until(lambda: len(checks.brokers) == 2)
        assert checks.brokers[8].why_not

        answers = set()  # the cluster does not answer: nothing is known
        at = checks.brokers[8].at
        await until(lambda: checks.brokers[8].at > at + 0.1)
        answers = {7}
        await until(lambda: checks.brokers.keys() == {7})
        listening.close()
        await until(lambda: checks.brokers[7].why_not)

        answers = {7, 8}
        await until(lambda: checks.brokers.keys() == {7, 8})
        answers = {7}
        await until(lambda: checks.brokers.keys() == {7})
        listening = socket.create_server(("127.0.0.1", 0))
        known[8] = Address(*listening.getsockname())
        await until(lambda: 8 in checks.brokers)
        assert not checks.brokers[8].why_not
    listening.close()


async def test_an_error_of_the_cluster_does_not_end_the_checks(monkeypatch):
    """For example, a file of certificates is being replaced."""
    monkeypatch.setattr(broker_checks, "EVERY_S", 0.01)
    monkeypatch.setattr(broker_checks, "NAMED_EVERY_S", 0.0)
    calls = []

    async def named():
        calls.append(None)
        raise ConfigurationError("upstream.ssl.truststore.location: no such file")

    checks = BrokerChecks(lambda: {1: Address("127.0.0.1", 1)}, named, None)
    async with running(checks):
        await until(lambda: len(calls) > 2)
    assert checks.brokers[1].why_not
