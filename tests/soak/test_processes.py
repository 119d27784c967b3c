"""Processes that a soak has started are found and killed."""

import os
import subprocess
import sys

import pytest

from tests.soak.processes import descendants, kill

pytestmark = pytest.mark.system

# A parent that ends before its child, which no other process would find.
_ORPHAN = """import os, subprocess, sys
from tests.soak.processes import adopt_orphans, descendants, kill
adopt_orphans()
start = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
parent = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True)
child = int(parent.stdout.readline())
parent.wait()
print(child in descendants(os.getpid()), kill(child), flush=True)
os.waitpid(child, 0)
print([kill(pid) for pid in descendants(os.getpid())])
"""


def test_an_orphan_is_found_and_killed():
    done = subprocess.run(
        [sys.executable, "-c", _ORPHAN], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines() == ["True sleep 600", "[]"]


def test_ended_processes_are_not_listed():
    process = subprocess.Popen(["true"])
    while process.pid in descendants(os.getpid()) and kill(process.pid):
        pass

    assert kill(process.pid) == ""  # a zombie
    assert process.wait(60) in {0, -9}
