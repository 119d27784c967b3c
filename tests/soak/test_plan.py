"""The seed determines the plan."""

import pytest

from tests.soak.plan import LANES, draw, in_order


def test_a_seed_gives_the_same_plan_again():
    assert draw(1, 120) == draw(1, 120)
    assert draw(1, 120) != draw(2, 120)


def test_a_longer_soak_begins_as_a_shorter_soak():
    short, long = draw(5, 120), draw(5, 1200)

    assert {name: faults[: len(short[name])] for name, faults in long.items()} == short


@pytest.mark.parametrize("seed", range(100))
def test_two_minutes_have_every_fault(seed):
    done = {fault.kind for fault in in_order(draw(seed, 120))}

    assert done == {kind for lane in LANES.values() for kind in lane.kinds}


def test_faults_are_in_order_and_within_the_time():
    faults = [fault.at for fault in in_order(draw(3, 300))]

    assert faults == sorted(faults)
    assert all(0 < at < 300 for at in faults)
