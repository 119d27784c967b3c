"""A sample of the mutated records that `python -m tests.policies.json_schema.mutations` judges."""

import pytest

from tests.policies.json_schema.mutations import run


@pytest.mark.thorough
def test_no_judgement_and_no_reason_takes_long():
    refused, _, _ = run(4000, seed=27)

    assert 1000 < refused < 4000
