"""How many refused records of a batch are explained."""

from penstock.policies.explanations import BATCH_MS, MOST, RECORD_MS, Explanations


def test_the_first_hundred_are_explained():
    explanations = Explanations()
    assert [explanations.take(0.1) for _ in range(MOST + 1)] == [True] * MOST + [False]


def test_an_explanation_that_takes_too_long_leaves_the_others_theirs():
    explanations = Explanations()
    assert not explanations.take(RECORD_MS + 1)
    assert explanations.take(RECORD_MS)


def test_all_together_have_a_bound():
    explanations = Explanations()
    assert sum(explanations.take(RECORD_MS) for _ in range(20)) == BATCH_MS / RECORD_MS
    assert not explanations.take(1)
