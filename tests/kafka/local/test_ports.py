"""Free ports: no two processes get the same ports."""

import json
import socket
import subprocess
import sys

import pytest

from penstock.kafka.local import LocalKafkaError, free_ports, ports

pytestmark = pytest.mark.system

_FIND_PORTS = """import json, random, sys
from penstock.kafka.local import ports
ports._CHANCE = random.Random(7)
print(json.dumps([ports.free_ports(6) for _ in range(30)]), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch):
    monkeypatch.setattr(ports, "_blocks", held := [])
    yield
    for block in held:
        block._reservation.close()


def test_processes_that_try_the_same_ports_get_different_ports():
    # Each process draws the same numbers, which is the worst that chance can do.
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _FIND_PORTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    ports = [
        port
        for request in processes
        for found in json.loads(request.stdout.readline())
        for port in found
    ]
    for request in processes:
        request.communicate()
    assert len(ports) == 4 * 30 * 6
    assert len(set(ports)) == len(ports)


def test_the_port_returned_longest_ago_is_returned_first(monkeypatch):
    monkeypatch.setattr(ports, "_is_free", lambda _: True)
    found = [port for _ in range(33) for port in free_ports(6)]
    assert len(set(found)) == 33 * 6
    assert free_ports(6) == found[:6]


def test_ports_in_use_are_left_out():
    (taken,) = free_ports()
    with socket.create_server(("127.0.0.1", taken)):
        ports = [port for _ in range(100) for port in free_ports(3)]
    assert taken not in ports
    assert len(ports) == 300


def test_a_full_block_is_followed_by_another(monkeypatch):
    monkeypatch.setattr(ports, "_is_free", lambda _: True)
    first, *_ = free_ports(199)
    full = range(first, first + 199)
    monkeypatch.setattr(ports, "_is_free", lambda port: port not in full)
    assert not set(free_ports(6)) & set(full)


def test_an_error_reports_that_no_ports_are_free(monkeypatch):
    monkeypatch.setattr(ports, "_is_free", lambda _: False)
    with pytest.raises(LocalKafkaError, match="no 6 consecutive free ports between 12000 and"):
        free_ports(6)
