"""Spark's daemon, spoken to as the JVM does: a worker that loses its JVM prints no traceback."""

import contextlib
import os
import socket
import struct
import subprocess
import sys

import pytest

from penstock.spark.daemon import is_lost_connection
from tests.gateways import is_running, wait_until

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform == "win32", reason="forks")]
INTEGER = struct.Struct("!i")
OF_THE_JVM = {
    "PYTHON_WORKER_FACTORY_SECRET": "secret",
    "SPARK_REUSE_WORKER": "1",
    "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
}
"""What Spark sets in the daemon's environment, by default."""


@contextlib.contextmanager
def running_daemon(tmp_path):
    """Yield the port of a daemon, which has ended after the block."""
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.daemon", "pyspark.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            env={**os.environ, **OF_THE_JVM},
        ) as daemon,
    ):  # fmt: skip
        (port,) = INTEGER.unpack(daemon.stdout.read(INTEGER.size))
        yield port
        daemon.stdin.close()


def end_of_worker(port, sent):
    """Send bytes to a new worker, close the connection, and wait for the worker's end."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        received = b""
        while len(received) < INTEGER.size:
            received += connection.recv(INTEGER.size - len(received))
        connection.sendall(sent)
    wait_until(lambda: not is_running(INTEGER.unpack(received)[0]), 60)


@pytest.mark.parametrize("sent", [b"", INTEGER.pack(6) + b"secret"])
def test_a_lost_jvm_prints_nothing(tmp_path, sent):
    with running_daemon(tmp_path) as port:
        end_of_worker(port, sent)
    assert (tmp_path / "stderr").read_text() == ""


def test_other_errors_are_printed(tmp_path):
    with running_daemon(tmp_path) as port:
        end_of_worker(port, INTEGER.pack(1) + b"\xff")
    text = (tmp_path / "stderr").read_text()
    assert text.startswith("Traceback")
    assert "UnicodeDecodeError" in text


def caused_by(error, cause):
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (BrokenPipeError(), True),
        (caused_by(BrokenPipeError(), EOFError()), True),
        (caused_by(BrokenPipeError(), ValueError()), False),
        (caused_by(ValueError(), BrokenPipeError()), False),
        (OSError(), False),
        (None, False),
    ],
)
def test_only_lost_connections_are_left_out(error, is_lost):
    assert is_lost_connection(error) is is_lost
