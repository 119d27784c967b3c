"""What the suites share."""

import random

import pytest


@pytest.fixture
def suites_seed(request) -> int:
    """The seed of all random choices: `--suites-seed`, or a new seed each time."""
    option = request.config.getoption("suites_seed")
    return random.SystemRandom().randrange(1_000_000) if option is None else option


@pytest.fixture
def suites_minutes(request) -> float:
    """For how long records are mutated: `--suites-minutes`."""
    return request.config.getoption("suites_minutes")
