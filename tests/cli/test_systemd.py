"""The messages that systemd gets: over real sockets, and from a real gateway."""

import asyncio
import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.process.systemd import Notifications

pytestmark = pytest.mark.system
POLICY = """
import os
from penstock.policy import *
class Last(RecordValidationPolicy):
    def configure(self, configs):
        if {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys():
            raise OSError("a policy might speak for the gateway")
    def validate(self, topic, record): pass
"""
PROPERTIES = {
    "record.validation.policy.class.name": "policies.Last",
    "topics.*.record.validation.policy": "any",
}


class Systemd:
    """The socket of a service manager, and the messages that it receives."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.settimeout(60)

    def receive(self, *, watchdog: bool = False) -> dict[str, str]:
        """Return the next message; messages for the watchdog are skipped unless requested."""
        while True:
            message = dict(
                line.split("=", 1) for line in self._socket.recv(4096).decode().split("\n")
            )
            if watchdog or message != {"WATCHDOG": "1"}:
                return message

    def is_silent(self) -> bool:
        """Return whether there is no unread message."""
        self._socket.setblocking(False)
        try:
            self._socket.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self._socket.settimeout(60)
        return False

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@{uuid.uuid4().hex}"
    listening = Systemd(name)
    yield listening
    listening.close()


@pytest.mark.parametrize("systemd", ["abstract"], indirect=True)
def test_a_gateway_notifies_systemd_of_start_reload_and_stop(systemd, gateway, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    running = gateway(PROPERTIES, POLICY)
    serving = {"READY": "1", "STATUS": f"serving {running.address}"}

    assert systemd.receive() == serving
    assert [systemd.receive(watchdog=True) for _ in range(3)] == [{"WATCHDOG": "1"}] * 3

    running.process.send_signal(signal.SIGHUP)
    message = systemd.receive()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert before < int(message.pop("MONOTONIC_USEC")) < after
    assert message == {"RELOADING": "1", "STATUS": "reloading"}
    assert systemd.receive() == serving
    running.wait_for("reloaded")

    running.file.write_text("listeners=nowhere")
    running.process.send_signal(signal.SIGHUP)
    assert "RELOADING" in systemd.receive()
    assert systemd.receive() == serving

    # Read before the process has ended: one whose messages found no room would take them along.
    running.process.send_signal(signal.SIGTERM)
    assert systemd.receive() == {"STOPPING": "1", "STATUS": "answering requests in flight"}
    assert running.stop() == 0


async def test_the_variables_of_systemd_are_not_passed_to_child_processes(systemd):
    environment = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "1", "HOME": "/"}
    Notifications(environment).close()
    assert environment == {"HOME": "/"}


async def test_the_watchdog_of_another_process_gets_no_messages(systemd):
    environment = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    notifications = Notifications(environment)
    notifications.ready("serving")
    notifications.close()
    assert systemd.receive(watchdog=True)["READY"] == "1"
    assert systemd.is_silent()


async def test_the_watchdog_of_this_process_gets_messages(systemd):
    pid = str(os.getpid())
    environment = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "2000", "WATCHDOG_PID": pid}
    notifications = Notifications(environment)
    for _ in range(3):
        assert await asyncio.to_thread(systemd.receive, watchdog=True) == {"WATCHDOG": "1"}
    notifications.close()


async def test_the_end_of_the_last_concurrent_reload_counts(systemd):
    notifications = Notifications({"NOTIFY_SOCKET": systemd.address})
    with notifications.reloading():
        with notifications.reloading():
            pass
        assert ["RELOADING" in systemd.receive() for _ in range(2)] == [True, True]
        assert systemd.is_silent()
    assert systemd.receive()["READY"] == "1"
    notifications.close()


async def test_a_reload_that_ends_after_the_stop_does_not_send_ready(systemd):
    notifications = Notifications({"NOTIFY_SOCKET": systemd.address})
    with notifications.reloading():
        notifications.stopping()
    notifications.close()
    assert "RELOADING" in systemd.receive()
    assert "STOPPING" in systemd.receive()
    assert systemd.is_silent()


async def test_messages_are_sent_once_the_socket_of_systemd_has_room(systemd):
    notifications = Notifications({"NOTIFY_SOCKET": systemd.address})
    sent = 2 + int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    for number in range(sent):
        notifications.ready(str(number))
    received = [await asyncio.to_thread(systemd.receive) for _ in range(sent)]
    assert [message["STATUS"] for message in received] == [str(number) for number in range(sent)]
    notifications.close()


@pytest.mark.parametrize(
    "address", ["", "relative", "vsock:2:1", "/nowhere/at/all", "@" + "x" * 200]
)
async def test_without_systemd_no_message_is_sent_and_the_gateway_works(address):
    notifications = Notifications({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000"})
    notifications.ready("serving")
    with notifications.reloading():
        pass
    notifications.stopping()
    notifications.close()


async def test_the_gateway_outlives_the_end_of_systemd(systemd):
    notifications = Notifications({"NOTIFY_SOCKET": systemd.address})
    systemd.close()
    notifications.ready("serving")
    notifications.close()
