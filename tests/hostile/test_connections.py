"""Connections: their number, addresses, rate and idle time; and a lack of file descriptors (4)."""

import contextlib
import resource
import time

import pytest

from tests.gateways import (
    PENSTOCK,
    RunningGateway,
    descriptors,
    gateway_port,
    wait_until,
    wait_until_settled,
    write_configuration,
)
from tests.hostile.greedy import Connections, is_closed
from tests.hostile.innocent import Innocent, is_served


@pytest.mark.slow
def test_connections_beyond_the_limit_wait(gateway, topic):
    name = topic()
    running = gateway({"max.connections": 10})
    with Connections() as greedy:
        with Innocent(running.broker_address(), name) as innocent:
            wait_until(lambda: innocent.seconds)
            for _ in range(30):
                greedy.connect(running.broker_address())
            time.sleep(1)
            assert not is_served(running.broker_address(), name, within_s=3)
            wait_until(lambda: len(innocent.seconds) > 100)
            assert not innocent.wrong
        assert len(running.events("no more connections are accepted")) >= 1
    wait_until(lambda: is_served(running.broker_address(), name))


def test_connections_of_an_address_are_limited(gateway, topic):
    name = topic()
    running = gateway({"max.connections.per.ip": 5})
    with Connections() as greedy:
        for _ in range(5):
            greedy.connect(running.broker_address())
        assert is_closed(greedy.connect(running.broker_address()))
        assert not is_served(running.broker_address(), name)
    wait_until(lambda: is_served(running.broker_address(), name))


def test_new_connections_per_second_are_limited(gateway):
    running = gateway({"max.connection.creation.rate": 10})
    wait_until_settled(lambda: descriptors(running.pid))
    before = descriptors(running.pid)
    with Connections() as greedy:
        began = time.monotonic()
        for _ in range(40):
            greedy.connect(running.broker_address())
        wait_until(lambda: descriptors(running.pid) >= before + 40)
        assert time.monotonic() - began > 2


def test_a_connection_without_a_byte_is_none_to_the_broker(gateway, topic):
    running = gateway({})
    wait_until_settled(lambda: descriptors(running.pid))
    before = descriptors(running.pid)
    with Connections() as greedy:
        for _ in range(100):
            greedy.connect(running.broker_address())
        wait_until(lambda: descriptors(running.pid) >= before + 100)
        assert is_served(running.broker_address(), topic())
        wait_until_settled(lambda: descriptors(running.pid))
        assert descriptors(running.pid) < before + 110
        for connection in greedy.open:
            connection.sendall(bytes(1))
        wait_until(lambda: descriptors(running.pid) >= before + 200)


def test_the_gateway_recovers_from_a_lack_of_file_descriptors(gateway, topic):
    name = topic()
    running = gateway({})
    with Connections() as greedy:
        with Innocent(running.broker_address(), name) as innocent:
            wait_until(lambda: innocent.seconds)
            most = descriptors(running.pid) + 20
            before = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (most, before[1]))
            for _ in range(60):
                with contextlib.suppress(OSError):
                    greedy.connect(running.broker_address())
            running.wait_for("connections cannot be accepted")
            count = len(innocent.seconds)
            wait_until(lambda: len(innocent.seconds) > count + 100)
            assert not innocent.wrong
        greedy.close()
        wait_until(lambda: is_served(running.broker_address(), name))
    assert not [event for event in running.log if "exception" in event]
    assert len(running.events("connections cannot be accepted")) < 200


def test_the_soft_limit_of_file_descriptors_is_raised(kafka, tmp_path):
    """A shell's soft limit, often 1,024, is raised to the hard limit."""
    file = write_configuration(tmp_path, kafka.bootstrap_servers, gateway_port(), {})
    few = ["sh", "-c", 'ulimit -S -n 300; exec "$0" "$@"', *PENSTOCK]
    running = RunningGateway(file, few)
    try:
        soft, hard = resource.prlimit(running.pid, resource.RLIMIT_NOFILE)
        assert soft == hard > 300
    finally:
        running.stop()


@pytest.mark.slow
def test_a_connection_without_a_request_is_closed(gateway, topic):
    running = gateway({})
    with Connections() as greedy:
        silent = greedy.connect(running.broker_address())
        began = time.monotonic()
        assert is_closed(silent, 45)
        assert time.monotonic() - began > 20
    assert is_served(running.broker_address(), topic())
