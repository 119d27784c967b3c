"""The output of a JVM on standard error: all of it, except lines that every JVM prints."""

import io
import subprocess
import sys

import pytest

from penstock.spark.execution.jvm_output import forward, is_noise, without_noise
from tests.spark.session_script import SCRIPT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "noise"),
    [
        ("WARNING: Using incubator modules: jdk.incubator.vector", True),
        ("WARNING: A terminally deprecated method in sun.misc.Unsafe has been called", True),
        ("WARNING: Use --enable-native-access=ALL-UNNAMED to avoid a warning", True),
        (
            "Warning: Java versions > Java 11 can only operate in restricted mode where no ...",
            True,
        ),
        ("WARNING: the disk is full", False),
        ("java.lang.OutOfMemoryError: Java heap space", False),
        ("a policy says WARNING: Using incubator modules: x", False),
        ("", False),
    ],
)
def test_only_lines_about_java_are_noise(line, noise):
    assert is_noise(line) == noise


TRACEBACK = ["Traceback (most recent call last):\n", '  File "x.py", line 1, in f\n', "    f()\n"]
LATE = (
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] Can not open socket\n"
)


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["one\n", *TRACEBACK, LATE, "two\n"], ["one\n", "two\n"]),
        ([*TRACEBACK, LATE, *TRACEBACK, LATE], []),
        ([*TRACEBACK, *TRACEBACK, LATE], TRACEBACK),
        ([*TRACEBACK, "ValueError: x\n", LATE], [*TRACEBACK, "ValueError: x\n", LATE]),
        (TRACEBACK, TRACEBACK),
        ([" one\n", "two\n"], [" one\n", "two\n"]),
    ],
)
def test_only_the_traceback_of_a_worker_that_starts_too_late_is_left_out(lines, left):
    """The command says that it did not start in time."""
    assert list(without_noise(lines)) == left


def test_the_rest_is_passed_on(capsys):
    text = b"WARNING: Using incubator modules: jdk.incubator.vector\none\n\xff two"
    thread = forward(io.BytesIO(text))
    thread.join(60)
    assert not thread.is_alive()
    assert capsys.readouterr().err == "one\n\ufffd two"


def test_a_session_starts_without_noise():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
