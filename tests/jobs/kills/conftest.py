"""Rounds of kills, all of them from one seed."""

import random

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test for each round."""
    if "round_seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("chaos_seed")
        first = random.randrange(1_000_000) if seed is None else seed
        count = metafunc.config.getoption("kill_rounds")
        metafunc.parametrize("round_seed", range(first, first + count))
