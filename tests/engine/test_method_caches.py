"""`penstock.engine.plans.method_caches`."""

import gc
import weakref

import pytest

from penstock.engine.plans.method_caches import cached_method


class Squares:
    def __init__(self):
        self.calls = []
        self.of = cached_method(2, self._of)

    def _of(self, number, *, negative=False):
        self.calls.append(number)
        return -(number**2) if negative else number**2


@pytest.fixture(autouse=True)
def no_collection():
    """The collector is off: what ends here ends without it."""
    gc.disable()
    yield
    gc.enable()


def test_results_are_kept():
    squares = Squares()
    assert [squares.of(3), squares.of(3), squares.of(3, negative=True)] == [9, 9, -9]
    assert squares.calls == [3, 3]


def test_the_oldest_result_is_left_out():
    squares = Squares()
    for number in (1, 2, 3, 1):
        squares.of(number)
    assert squares.calls == [1, 2, 3, 1]


def test_the_cache_does_not_keep_its_object():
    squares = Squares()
    squares.of(3)
    ended = weakref.ref(squares)
    del squares
    assert ended() is None


def test_a_cache_that_is_used_after_its_object_raises_an_error():
    of = Squares().of
    with pytest.raises(ReferenceError, match="has ended"):
        of(3)
