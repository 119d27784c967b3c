"""The dead letter topics of topics in quarantine (`errors.deadletterqueue.topic.name`)."""

import pytest

from penstock.configuration import ConfigurationError
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of


def test_a_dead_letter_topic_has_the_name_of_its_topic_in_it():
    found = plan_of(QUARANTINE).for_topic("orders")
    assert (found.quarantines, found.dead_letter_topic) == (True, "orders.dead")
    assert (found.dead_letter_replicas, found.dead_letters_have_context) == (3, True)
    assert found.quarantine_max_ratio == 1.0

    file = {**QUARANTINE, "errors.deadletterqueue.topic.name": "dlq.${topic}.x",
            "topics.ab.errors.deadletterqueue.topic.name": "bad",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "false"}  # fmt: skip
    plan = plan_of(file)
    found = plan.for_topic("orders")
    assert (found.dead_letter_topic, found.dead_letter_replicas) == ("dlq.orders.x", 1)
    assert not found.dead_letters_have_context
    assert plan.for_topic("ab").dead_letter_topic == "bad"
    for name, expected in (("${topic}-x", "orders-x"), ("bad", "bad"), ("any", "dlq.orders.x")):
        own = {"errors.deadletterqueue.topic.name": name}
        assert plan.for_topic("orders", own).dead_letter_topic == expected


def test_a_dead_letter_topic_is_not_judged_in_this_mode():
    plan = plan_of({**QUARANTINE, "topics.b.errors.deadletterqueue.topic.name": "bad"})
    for name in ("orders.dead", "bad"):
        assert plan.for_topic(name).waited_for is None, name
        assert not plan.for_topic(name).quarantines
    assert plan.for_topic(".dead").quarantines
    enforced = plan_of({**QUARANTINE, "topics.*.dead.penstock.mode": "enforce"})
    assert enforced.for_topic("orders.dead").waited_for is not None
    elsewhere = plan_of({**VALIDATED, "topics.a.penstock.mode": "quarantine",
                         "topics.*.dead.penstock.mode": "quarantine"})  # fmt: skip
    assert elsewhere.for_topic("a.dead").waited_for is None
    assert not plan_of(VALIDATED).for_topic("a.dead").holds_dead_letters


def test_the_line_of_a_topic_does_not_make_it_the_dead_letter_topic_of_others():
    own = {"topics.a.errors.deadletterqueue.topic.name": "a"}
    with pytest.raises(ConfigurationError, match="dead letter topic of a would be a itself"):
        plan_of({**QUARANTINE, **own})
    shared = plan_of({**QUARANTINE, **own, "topics.b*.errors.deadletterqueue.topic.name": "a"})
    assert shared.for_topic("a").holds_dead_letters


def test_a_topic_that_would_be_its_own_dead_letter_topic_is_an_error():
    own = {"topics.a.penstock.mode": "quarantine",
           "topics.a.errors.deadletterqueue.topic.name": "a"}  # fmt: skip
    with pytest.raises(ConfigurationError, match="dead letter topic of a would be a itself"):
        plan_of({**VALIDATED, **own})
    named = {**VALIDATED, "errors.deadletterqueue.topic.name": "t"}
    found = plan_of(named).for_topic("t", {"penstock.mode": "quarantine"})
    assert "would be t itself" in found.unusable
    assert "characters" in plan_of(QUARANTINE).for_topic("t" * 246).unusable
    assert not plan_of(QUARANTINE).for_topic("t" * 244).unusable
