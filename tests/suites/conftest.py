"""What the suites share."""

import random

import pytest


@pytest.fixture
def suites_seed(request) -> int:
    """The seed of all that is drawn: `--suites-seed`, or another one each time."""
    given = request.config.getoption("suites_seed")
    return random.SystemRandom().randrange(1_000_000) if given is None else given
