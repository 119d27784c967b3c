"""Token buckets."""

from penstock.policies.schema_policy.registry.budget import SHARES_KEPT, Shares, TokenBucket


def test_tokens_come_back_slowly_and_never_more_than_at_first():
    now = [0.0]
    budget = TokenBucket(3, 2.0, lambda: now[0])

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


def test_a_topic_has_a_share_that_other_topics_cannot_use():
    now = [0.0]
    shares = Shares(10, 5.0, own_tokens=2, own_per_second=1.0, clock=lambda: now[0])

    def spend_all(topic):
        spent = 0
        while not shares.is_spent(topic):
            shares.spend(topic)
            spent += 1
        return spent

    assert spend_all("greedy") == 10, "its own tokens and the shared tokens"
    assert spend_all("other") == 2, "only its own tokens"
    assert shares.is_spent("greedy")
    now[0] += 2
    assert spend_all("greedy") == 2 + 8
    assert spend_all("other") == 2
    assert spend_all("new") == 2


def test_shares_are_bounded_in_number():
    shares = Shares(10, 5.0, own_tokens=2, own_per_second=1.0, clock=lambda: 0.0)
    for number in range(SHARES_KEPT + 10):
        shares.spend(f"t{number}")
    assert len(shares) == SHARES_KEPT
