"""What a client announces, and what is there (1, 9)."""

import pytest

from tests.hostile.attack import Attack, unexpected
from tests.hostile.innocent import INNOCENT, is_served
from tests.hostile.inputs import HEAD_BYTES, LOOKED_AT, with_lie
from tests.hostile.watchdog import Watchdog

MOST = 2**31 - 1
MEMORY = 150 * 2**20


@pytest.fixture
def looked_at(bases):
    return [one for one in bases if one.api_key in LOOKED_AT]


def test_every_count_of_every_request_announces_too_much(attacked, looked_at):
    attack = Attack(attacked.broker_address())
    with Watchdog(attacked) as seen:
        for one in looked_at:
            for spot in one.spots:
                for value in (MOST, -2, 2**24):
                    attack.send(with_lie(one, spot, value))
                    assert attacked.process.poll() is None, (one, spot, value)
    assert is_served(attacked.broker_address(), INNOCENT)
    assert not unexpected(attacked)
    assert seen.grown_bytes < MEMORY
    assert attack.told["nothing"] == 0


@pytest.mark.parametrize(("api_key", "version"), [(32, 4), (3, 12)])
def test_an_array_of_four_billion_ends_no_process(attacked, looked_at, api_key, version):
    attack = Attack(attacked.broker_address())
    [one] = [x for x in looked_at if (x.api_key, x.version) == (api_key, version)]
    for spot in one.spots:
        attack.send(with_lie(one, spot, 2**32 - 2))
        assert attacked.process.poll() is None, spot
    assert is_served(attacked.broker_address(), INNOCENT)


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_request_ends_too_early(attacked, looked_at, cut):
    attack = Attack(attacked.broker_address())
    for one in looked_at:
        body = one.frame[4 : HEAD_BYTES + cut]
        attack.send(len(body).to_bytes(4, "big") + body)
        assert attacked.process.poll() is None, one
    assert is_served(attacked.broker_address(), INNOCENT)
    assert not unexpected(attacked)
