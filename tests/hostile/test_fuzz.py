"""Whatever a client sends, the gateway runs, serves other clients, and keeps no memory of it.

3,000 random inputs in `make slow`; `make fuzz` for more.
"""

import pytest

from tests.gateways import descriptors, resident_bytes, wait_until
from tests.hostile.attack import Attack, unexpected
from tests.hostile.innocent import INNOCENT, is_served
from tests.hostile.inputs import mutated


@pytest.mark.slow
def test_random_inputs_affect_no_other_client(attacked, inputs, pytestconfig, chance):
    count = pytestconfig.getoption("fuzz_inputs")
    attack = Attack(attacked.broker_address())
    for _ in range(200):
        attack.send(mutated(chance, inputs)[1])
    memory, open_files = resident_bytes(attacked.pid), descriptors(attacked.pid)
    for number in range(count):
        chosen, data = mutated(chance, inputs)
        attack.send(data)
        place = f"input {number}: {chosen.api_key} {chosen.version} {data.hex()}"
        assert attacked.process.poll() is None, place
        if number % 500 == 0:
            assert is_served(attacked.broker_address(), INNOCENT), place
            assert not unexpected(attacked), (place, unexpected(attacked)[:1])
    assert is_served(attacked.broker_address(), INNOCENT)
    assert not unexpected(attacked)
    # The gateway's own clients of the cluster may have come to be meanwhile.
    wait_until(lambda: descriptors(attacked.pid) <= open_files + 20, 30)
    assert resident_bytes(attacked.pid) < memory + 50 * 2**20
    assert attack.results["answered"] > count / 50
    assert attack.results["closed"] > count / 50
