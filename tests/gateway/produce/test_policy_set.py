"""Batches that are accepted inline are not submitted to workers."""

import uuid

import pytest

from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED
from penstock.engine.workers.batch_to_judge import BatchToJudge
from penstock.gateway.produce.policy_set import submit_or_accept, submit_or_drop_again

BATCH = BatchToJudge(
    TopicPlan(topic="t", validators=("v",)), 3, uuid.UUID(int=1), 9, b"data", client=5
)


class Inline:
    """An inline judge that accepts every batch, or none."""

    def __init__(self, *, accepting):
        self.accepting, self.given = accepting, []

    def accepts(self, *given):
        self.given.append(given)
        return self.accepting


@pytest.mark.parametrize("accepting", [True, False])
def test_a_batch_has_one_verdict(accepting):
    inline, submitted, verdicts = Inline(accepting=accepting), [], []

    submit_or_accept(inline, lambda *given: submitted.append(given), BATCH, verdicts.append)

    assert inline.given == [(BATCH.plan, 9, b"data")]
    assert verdicts == ([ACCEPTED] if accepting else [])
    assert submitted == ([] if accepting else [(BATCH, verdicts.append)])


def test_a_batch_whose_records_are_dropped_again_is_not_accepted_inline():
    inline, submitted, verdicts = Inline(accepting=True), [], []
    batch = BATCH._replace(dropped_before=(1,))

    submit_or_accept(inline, lambda *given: submitted.append(given), batch, verdicts.append)

    assert (submitted, verdicts) == ([(batch, verdicts.append)], [])


@pytest.mark.parametrize("policies", [("v",), ()])
def test_without_a_policy_records_are_only_dropped_again(policies):
    plan, chosen = TopicPlan(topic="t", validators=policies), []

    def choose(name):
        return lambda *_: chosen.append(name)

    submit_or_drop_again(choose("again"), choose("judged"), BATCH._replace(plan=plan), print)

    assert chosen == ["judged" if policies else "again"]
