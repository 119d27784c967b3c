"""Flat and rising samples."""

import pytest

from tests.soak.slopes import Line, Tolerance, after_warm_up, line


def rising(per_second, seconds=600):
    return [(float(at), 100 + per_second * at) for at in range(seconds)]


def test_a_line_has_the_slope_of_its_samples():
    found = line(rising(0.01))

    assert found.per_hour == pytest.approx(36)
    assert found.rise == pytest.approx(5.99)


def test_a_leak_is_not_flat():
    assert not line(rising(0.1)).is_flat(Tolerance(8, 32))


@pytest.mark.parametrize(("seconds", "per_second"), [(80, 0.05), (1200, 0.005), (600, -1)])
def test_a_small_slope_is_flat_in_a_short_and_in_a_long_time(seconds, per_second):
    assert line(rising(per_second, seconds)).is_flat(Tolerance(8, 32))


def test_a_slow_leak_is_not_flat_in_a_long_time():
    assert not line(rising(0.02, 3600)).is_flat(Tolerance(8, 32))


def test_a_warm_up_does_not_count():
    samples = [(float(at), min(at, 90) * 10.0) for at in range(300)]

    assert line(after_warm_up(samples)) == Line(900.0, 0.0, 0.0)


def test_too_few_samples_have_no_slope():
    assert line(rising(1, 2)) is None
    assert line([(1.0, 1.0)] * 5) is None
    assert after_warm_up([]) == []
