"""Work in slices that is done at once."""

import pytest

from penstock.wire.slices import finish


def work(slices):
    for _ in range(slices):
        yield
    if slices == 5:
        raise ValueError
    return slices


@pytest.mark.parametrize("slices", [0, 1, 4])
def test_it_is_done_to_its_end(slices):
    assert finish(work(slices)) == slices


def test_its_error_is_raised():
    with pytest.raises(ValueError):
        finish(work(5))
