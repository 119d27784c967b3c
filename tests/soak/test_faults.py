"""A gateway is started as by a supervisor, and never reads an incomplete file."""

import random
import threading
from types import SimpleNamespace

import pytest

from tests.soak.faults import Faults, start


class Running:
    """Ends with these exit codes when it is started; with None, it runs."""

    def __init__(self, *codes):
        self._codes = list(codes)
        self.process = SimpleNamespace(returncode=None)

    def restart(self, *, kill):
        assert kill
        self.process.returncode = self._codes.pop(0)
        if self.process.returncode is not None:
            raise AssertionError("not ready")


def test_a_gateway_that_cannot_reach_a_broker_is_started_again():
    assert start(Running(None)) == 1
    assert start(Running(3, 3, None)) == 3


@pytest.mark.parametrize("codes", [[3] * 5 + [None], [1, None], [3, 2, None], [-9, None]])
def test_a_gateway_that_ends_with_another_code_or_too_often_is_an_error(codes):
    with pytest.raises(AssertionError):
        start(Running(*codes))


def test_a_gateway_that_starts_during_a_write_reads_the_old_or_the_new_policies(tmp_path):
    file = tmp_path / "policies.py"
    file.write_text("the old ones")
    starting = threading.Lock()
    running = SimpleNamespace(file=tmp_path / "penstock.properties")
    stage = SimpleNamespace(gateways=[SimpleNamespace(name="one", running=running, lock=starting)])
    faults = Faults(stage, None, {})
    with starting, file.open() as opened:
        faults._reload(random.Random(1))
        assert opened.read() == "the old ones"
    assert "VERSION = 1\n" in file.read_text()
