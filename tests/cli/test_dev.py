"""What `penstock dev` tells a new user."""

import shlex
import sys
from pathlib import Path

from penstock.cli.dev import _greet
from penstock.configuration import Address


def test_the_command_can_be_pasted_wherever_the_clone_is(capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/home/a b/pen$tock/.venv/bin/python")
    scratch = Path("/tmp/it's mine")
    _greet(Path("f"), "k:1", Address("127.0.0.1", 2), Address("127.0.0.1", 3), scratch)

    output = capsys.readouterr().out
    (paste,) = [line for line in output.splitlines() if "produce.py" in line]
    assert shlex.split(paste) == [
        "/home/a b/pen$tock/.venv/bin/python",
        "/tmp/it's mine/produce.py",
        '{"id": 1, "amount": 12.5}',
        '{"id": 2, "amount": -1}',
    ]
    assert "http://127.0.0.1:3/ " in output
