"""Counts and lengths that are larger than the data after them (1, 9)."""

import pytest

from tests.hostile.attack import Attack, unexpected
from tests.hostile.innocent import INNOCENT, is_served
from tests.hostile.inputs import DECODED, HEAD_BYTES, with_wrong_number
from tests.hostile.watchdog import Watchdog

MOST = 2**31 - 1
MEMORY = 150 * 2**20


@pytest.fixture
def decoded(bases):
    return [base for base in bases if base.api_key in DECODED]


def test_every_count_and_length_may_be_too_large(attacked, decoded):
    attack = Attack(attacked.broker_address(), answer_s=15)
    with Watchdog(attacked) as seen:
        for base in decoded:
            for spot in base.spots:
                for value in (MOST, -2, 2**24):
                    attack.send(with_wrong_number(base, spot, value))
                    assert attacked.process.poll() is None, (base, spot, value)
    assert is_served(attacked.broker_address(), INNOCENT)
    assert not unexpected(attacked)
    assert seen.grown_bytes < MEMORY
    assert attack.results["nothing"] == 0


@pytest.mark.parametrize(("api_key", "version"), [(32, 4), (3, 12)])
def test_an_array_of_four_billion_elements_ends_no_process(attacked, decoded, api_key, version):
    attack = Attack(attacked.broker_address())
    [base] = [x for x in decoded if (x.api_key, x.version) == (api_key, version)]
    for spot in base.spots:
        attack.send(with_wrong_number(base, spot, 2**32 - 2))
        assert attacked.process.poll() is None, spot
    assert is_served(attacked.broker_address(), INNOCENT)


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_truncated_request_ends_no_process(attacked, decoded, cut):
    attack = Attack(attacked.broker_address())
    for base in decoded:
        body = base.frame[4 : HEAD_BYTES + cut]
        attack.send(len(body).to_bytes(4, "big") + body)
        assert attacked.process.poll() is None, base
    assert is_served(attacked.broker_address(), INNOCENT)
    assert not unexpected(attacked)
