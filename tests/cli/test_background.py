"""Work in a thread, which a signal does not wait for."""

import threading

import pytest

from penstock.cli.process.background import in_background, is_done


def test_the_result_and_the_error_are_those_of_the_function():
    done = in_background(lambda: 7)
    assert is_done(done, lambda: False)
    assert done.result() == 7

    def fail():
        raise OSError("no")

    failed = in_background(fail)
    assert is_done(failed, lambda: False)
    with pytest.raises(OSError, match="no"):
        failed.result()


def test_an_end_does_not_wait_for_a_silent_cluster():
    answer, signals = threading.Event(), iter([False, True])
    silent = in_background(answer.wait)
    assert not is_done(silent, lambda: next(signals))
    answer.set()
    assert is_done(silent, lambda: False)
