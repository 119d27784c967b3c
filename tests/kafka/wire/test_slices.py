"""Work in slices that is completed at once."""

import pytest

from penstock.kafka.wire.slices import finish


def work(slices):
    for _ in range(slices):
        yield
    if slices == 5:
        raise ValueError
    return slices


@pytest.mark.parametrize("slices", [0, 1, 4])
def test_all_slices_are_run(slices):
    assert finish(work(slices)) == slices


def test_an_error_of_a_slice_is_raised():
    with pytest.raises(ValueError):
        finish(work(5))
