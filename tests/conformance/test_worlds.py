"""What a gateway may log while a suite runs."""

import pytest

from tests.conformance.worlds import DIRECTLY, WAYS, is_fault


def test_suites_run_directly_first():
    assert next(iter(WAYS)) == DIRECTLY


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        ({"level": "info", "event": "stopped"}, False),
        ({"level": "error", "event": "policy failed", "code": 7}, False),
        ({"level": "error", "event": "policy failed", "code": -1}, True),
        ({"level": "not JSON", "event": "Traceback (most recent call last):"}, True),
    ],
)
def test_only_faults_count(event, counts):
    assert is_fault(event) is counts
