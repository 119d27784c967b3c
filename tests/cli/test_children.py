"""How child processes have ended is known, whatever has started the program."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

IGNORED = """
import signal, subprocess, sys
from penstock.cli import main
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
assert main(["policies"]) == 0
child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
print(child.wait(), file=sys.stderr)
"""


def test_ends_are_known_to_a_program_that_was_started_without():
    done = subprocess.run(
        [sys.executable, "-c", IGNORED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == "7\n", done
