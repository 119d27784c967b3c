"""`penstock top`: exit codes, messages, printing once without a terminal; keys on a terminal."""

import contextlib
import http.server
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import threading
import time
from pathlib import Path

import pytest

from penstock.local import free_ports
from tests.cli.states import row, state
from tests.gateways import PENSTOCK, wait_until, write_configuration

pytestmark = pytest.mark.system
TOKEN = "a-token"


class Gateway:
    """Responds like a gateway's console."""

    def __init__(self, token=None):
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                gateway.requests.append(self.path)
                gateway.waiting.set()
                gateway.may_answer.wait(60)
                authorization = self.headers["Authorization"]
                is_right = gateway.token is None or authorization == f"Bearer {gateway.token}"
                body = gateway.body if is_right else b"no"
                self.send_response(gateway.status if is_right else 401)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.token, self.status = token, 200
        self.requests = []
        self.waiting, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()
        self.show(state())
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def show(self, shown):
        self.body = json.dumps({"api": 1, **shown}).encode()

    @contextlib.contextmanager
    def silent(self):
        """Hold back responses; yield the event of the next request."""
        self.may_answer.clear()
        self.waiting.clear()
        try:
            yield self.waiting
        finally:
            self.may_answer.set()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def gateway():
    running = Gateway()
    yield running
    running.close()


@pytest.fixture
def top(tmp_path, gateway):
    def run(*arguments, **properties):
        named = {"metrics.listener": f":{gateway.port}", **properties}
        named = {key.replace("_", "."): value for key, value in named.items() if value is not None}
        file = write_configuration(tmp_path, "nowhere.invalid:1", 9192, named)
        return subprocess.run(
            [*PENSTOCK, "top", str(file), *arguments], capture_output=True, text=True,
            timeout=60, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("arguments", [[], ["--once"]])
def test_without_a_terminal_top_prints_once(top, gateway, arguments):
    done = top(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1234/s, 10M" in done.stdout
    assert "\x1b" not in done.stdout
    assert gateway.requests == ["/api/state"]


def test_a_proxy_of_the_environment_is_not_used(top, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert top().returncode == 0


@pytest.mark.parametrize(
    ("listener", "message"),
    [(None, "metrics.listener is not set"), ("127.0.0.1:0", "which only the gateway's log shows")],
)
def test_an_unknown_address_is_2(top, listener, message):
    done = top(metrics_listener=listener, **{"metrics.listener": listener})
    assert done.returncode == 2
    assert message in done.stderr
    assert "penstock.properties" in done.stderr


def test_an_unavailable_gateway_is_3(top):
    done = top(**{"metrics.listener": f"127.0.0.1:{free_ports(1)[0]}"})
    assert done.returncode == 3
    assert "no gateway can be reached at metrics.listener (127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_token_of_the_file_is_sent(top, gateway, tmp_path):
    gateway.token = TOKEN
    (tmp_path / "secret").write_text(TOKEN)
    assert top(**{"metrics.listener.token": "${file:secret}"}).returncode == 0
    for other in (None, "wrong"):
        done = top(**{"metrics.listener.token": other})
        assert done.returncode == 2
        assert "metrics.listener.token" in done.stderr
        assert "wrong" not in done.stderr


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"api": 99}', b'{"api": 1}'])
def test_another_server_is_3(top, gateway, body):
    gateway.body = body
    done = top()
    assert done.returncode == 3
    assert "is not a gateway of this version" in done.stderr


def test_a_wildcard_address_is_this_machine(top, gateway):
    properties = {"metrics.listener": f"0.0.0.0:{gateway.port}", "metrics.listener.token": "x"}
    assert top(**properties).returncode == 0


@pytest.mark.parametrize("every", ["0", "nan", "-1"])
def test_too_short_an_interval_is_2(top, every):
    assert top("--every", every).returncode == 2


class Terminal:
    """A terminal of 80 columns and 24 lines, in which the command runs."""

    def __init__(self, *command):
        import fcntl
        import struct

        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, close_fds=True, start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        )  # fmt: skip
        self.slave = slave
        self.text = self.raw = ""

    def wait_for(self, text, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            readable, _, _ = select.select([self.master], [], [], 1)
            if readable:
                read = os.read(self.master, 65536).decode("utf-8", "replace")
                self.raw += read
                self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", read)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read_to_the_end(self):
        """Read the output until the process ends: a process blocks if its output is not read."""
        deadline = time.monotonic() + 60
        while True:
            is_over = self.process.poll() is not None
            if select.select([self.master], [], [], 0.1)[0]:
                self.raw += os.read(self.master, 65536).decode("utf-8", "replace")
            elif is_over:
                return
            assert time.monotonic() < deadline

    def end(self):
        """Return the exit code."""
        self.read_to_the_end()
        os.close(self.master)
        os.close(self.slave)
        return self.process.wait(1)


@pytest.fixture
def watched(tmp_path, gateway):
    """Runs the command in terminals that are closed before the gateway."""
    listener = {"metrics.listener": f":{gateway.port}"}
    file = write_configuration(tmp_path, "nowhere.invalid:1", 9192, listener)
    return lambda *arguments: Terminal(*PENSTOCK, "top", str(file), *arguments)


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_on_a_terminal_top_runs_until_q(watched, gateway, key):
    terminal = watched("--every", "0.5")
    terminal.wait_for("q ends")
    gateway.show(state(refusals={"rows": [row("another reason")], "others": 0}))
    terminal.wait_for("another reason")
    gateway.status, gateway.body = 500, b""
    terminal.wait_for("HTTP 500")
    gateway.show(state(refusals={"rows": [row("back again")], "others": 0}))
    terminal.wait_for("back again")
    if key == "\x03":
        terminal.process.send_signal(2)  # the terminal is not the process's controlling one
    else:
        terminal.press(f"x{key}")
    assert terminal.end() == 0


def test_a_signal_at_any_moment_ends_top(watched):
    terminals = [watched("--every", "0.5") for _ in range(4)]
    for number, terminal in enumerate(terminals):
        terminal.wait_for("q ends")
        time.sleep(0.2 * number)
        terminal.process.send_signal([signal.SIGINT, signal.SIGTERM, signal.SIGHUP][number % 3])
        assert terminal.end() == 0


def is_pending(pid, number):
    """Whether a process has not yet taken a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = re.search(r"^ShdPnd:\t([0-9a-f]+)$", status, re.MULTILINE)[1]
    return bool(int(pending, 16) >> (number - 1) & 1)


def test_a_second_signal_does_not_wait_for_a_response(watched, gateway):
    terminal = watched("--every", "0.5")
    terminal.wait_for("q ends")
    with gateway.silent() as requested:
        assert requested.wait(60)
        terminal.process.send_signal(signal.SIGINT)
        # Two signals that are pending at once are a single one.
        wait_until(lambda: not is_pending(terminal.process.pid, signal.SIGINT), what="the signal")
        time.sleep(0.2)
        assert terminal.process.poll() is None
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0


def test_text_of_another_server_does_not_control_the_terminal(top):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x1b]0;owned\x07\x1b[2J220 mail\r\n")

        threading.Thread(target=answer, daemon=True).start()
        done = top(**{"metrics.listener": f"127.0.0.1:{other.getsockname()[1]}"})
    assert done.returncode == 3
    assert "no gateway can be reached" in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


def test_sigterm_restores_the_terminal(watched):
    terminal = watched()
    terminal.wait_for("q ends")
    assert termios.tcgetattr(terminal.slave) != terminal.before
    terminal.process.terminate()
    terminal.read_to_the_end()
    assert termios.tcgetattr(terminal.slave) == terminal.before
    assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1
    assert terminal.end() == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_terminal_cannot_encode_are_replaced(
    top, gateway, monkeypatch, encoding
):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    gateway.show(state(refusals={"rows": [row("東京")], "others": 0}))
    done = top()
    assert (done.returncode, done.stderr) == (0, "")
    assert "1234/s" in done.stdout
