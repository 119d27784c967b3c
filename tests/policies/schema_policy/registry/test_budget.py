"""A token bucket."""

from penstock.policies.schema_policy.registry.budget import Budget


def test_tokens_come_back_slowly_and_never_more_than_at_first():
    now = [0.0]
    budget = Budget(3, 2.0, lambda: now[0])

    def spend_all():
        spent = 0
        while not budget.is_spent:
            budget.spend()
            spent += 1
        return spent

    assert spend_all() == 3
    assert budget.is_spent
    now[0] += 0.4
    assert budget.is_spent, "there is no whole token yet"
    now[0] += 0.1
    assert spend_all() == 1
    now[0] += 1000
    assert spend_all() == 3
