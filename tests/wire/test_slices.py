"""Work in slices that is done at once."""

import pytest

from penstock.wire.slices import finish, result_of


def work(slices):
    for _ in range(slices):
        yield
    if slices == 5:
        raise ValueError
    return slices


@pytest.mark.parametrize("slices", [0, 1, 4])
def test_it_is_done_to_its_end(slices):
    assert finish(work(slices)) == slices
    assert result_of(work(slices)) == slices


def test_its_error_is_raised():
    with pytest.raises(ValueError):
        finish(work(5))


def test_a_result_is_one_already():
    assert result_of([b"frame"]) == [b"frame"]
