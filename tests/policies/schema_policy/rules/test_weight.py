"""How much there is of a value."""

import pytest

from penstock.policies.schema_policy.rules.weight import weighs_more_than
from tests.policies.schema_policy.messages import order_class


@pytest.mark.parametrize(
    "value",
    [
        "x" * 200,
        b"x" * 200,
        [0] * 200,
        {str(n): 0 for n in range(100)},
        [["x" * 60]] * 4,
        {"k" * 200: 1},
        ("Name", "x" * 200),
        order_class()(ssn="x" * 200),
        [order_class()(ssn="x" * 200)],
    ],
)
def test_heavy(value):
    assert weighs_more_than(value, 150)
    assert not weighs_more_than(value, 1500)


def test_the_work_is_bounded_by_the_limit():
    looked_at = []

    class Counting(dict):
        def values(self):
            looked_at.append(self)
            return super().values()

    assert weighs_more_than([Counting(a=1)] * 1000, 100)
    assert len(looked_at) < 100
