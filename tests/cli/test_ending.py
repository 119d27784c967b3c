"""The first signal requests the end of a command, the second ends it."""

import io
import os
import signal
import time

import pytest

from penstock.cli.process.ending import EndRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_handled_and_the_second_ends_the_process(number, capfd):
    before = signal.getsignal(number)
    with EndRequest() as ending:
        assert not ending.is_set()
        assert not ending.wait(0.01)
        os.kill(os.getpid(), number)
        began = time.monotonic()
        assert ending.wait(30)
        assert ending.is_set()
        assert time.monotonic() - began < 20
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
    assert capfd.readouterr().err == "ending\n"


def test_a_handler_of_other_code_is_replaced():
    with EndRequest() as ending:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ending.listen()
        os.kill(os.getpid(), signal.SIGINT)
        assert ending.wait(30)


def test_a_signal_ends_the_process_even_if_stderr_is_closed(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    raw = os.fdopen(writing, "wb", buffering=0)
    with io.TextIOWrapper(raw, write_through=True) as broken, EndRequest() as ending:
        monkeypatch.setattr("sys.stderr", broken)
        os.kill(os.getpid(), signal.SIGTERM)
        assert ending.wait(30)
