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
    for name, expected in (
        ("bad", "bad"),
        ("${topic}.dead", "orders.dead"),
        ("dlq.${topic}.x", "dlq.orders.x"),
        ("any", "dlq.orders.x"),
        ("${topic}-x", "dlq.orders.x"),
    ):
        own = {"errors.deadletterqueue.topic.name": name}
        assert plan.for_topic("orders", own).dead_letter_topic == expected
        assert plan.allows_dead_letters(name) is (name not in {"any", "${topic}-x"})


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


def test_a_glob_with_a_set_has_a_dead_letter_topic_that_is_not_judged():
    shared = {"topics.orders[12].penstock.mode": "quarantine",
              "topics.orders[12].errors.deadletterqueue.topic.name": "bad"}  # fmt: skip
    plan = plan_of({**VALIDATED, **shared, "topics.bad.penstock.mode": "quarantine"})
    assert plan.for_topic("orders1").dead_letter_topic == "bad"
    assert plan.for_topic("bad").holds_dead_letters


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
    assert (found.quarantines, found.dead_letter_topic) == (True, "t")
    assert not found.unusable, "its good records are stored"
    assert "would be t itself" in plan_of(named).dead_letter_obstacle("t", "t")


NAMED = {
    "policies": "first,second",
    "policies.first.type": "KeyRequired",
    "policies.second.type": "KeyRequired",
}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("t.dead", ""),
        ("_t", ""),
        ("t", "would be t itself"),
        ("__t", "names that begin with __ are those of internal topics"),
        ("__consumer_offsets", "names that begin with __ are those of internal topics"),
        ("t" * 249, ""),
        ("t" * 250, "has 250 characters, and a topic's name 249 at most"),
    ],
)
def test_dead_letters_do_not_go_to_some_names(name, why):
    found = plan_of(QUARANTINE).dead_letter_obstacle("t", name)
    assert found.startswith("errors.deadletterqueue.topic.name: ") if why else found == ""
    assert why in found


@pytest.mark.parametrize(
    ("file", "own", "keys"),
    [
        ({}, {}, ""),
        ({}, {"penstock.policies": "first"}, "penstock.policies"),
        ({}, {"penstock.policies": ""}, ""),
        ({}, {"penstock.mode": "quarantine", "penstock.quarantine.max.ratio": "0.5"}, ""),
        ({"topics.*.penstock.policies": "first"}, {"penstock.mode": "enforce"}, ""),
        ({"topics.*.penstock.policies": "first"}, {"penstock.policies": "second"},
         "penstock.policies"),
        ({"topics.t.dea?.penstock.policies": "first"}, {}, ""),
        ({"topics.t.dead.penstock.policies": "first"}, {}, "penstock.policies"),
        ({"topics.t.dead.penstock.mode": "enforce"}, {}, ""),
        ({"topics.t.dead.penstock.policies": "first"}, {"penstock.policies": ""}, ""),
        ({"topics.t.dead.penstock.policies": "first", "topic.settings.keys.allowed": "penstock.mode"},
         {"penstock.policies": ""}, "penstock.policies"),
        ({"topic.settings.keys.allowed": "penstock.mode"}, {"penstock.policies": "first"}, ""),
        ({"record.validation.policy.class.name": "a.P"}, {"record.validation.policy": "x"},
         "record.validation.policy"),
        ({"topics.t.dead.records.policy.class.name": "a.R"}, {}, ""),
        ({"topics.t.dead.records.policy.class.name": "a.R"}, {"records.policy.enabled": "true"},
         "records.policy.class.name, records.policy.enabled"),
        ({"topics.*.records.policy.class.name": "a.R"}, {"records.policy.enabled": "true"},
         "records.policy.enabled"),
        ({}, {"penstock.policies": "third"}, "penstock.policies"),
    ],
)  # fmt: skip
def test_dead_letters_do_not_go_to_a_topic_with_policies_of_its_own(file, own, keys):
    """A validator of the file, or a wildcard, is for all topics: those policies do not count."""
    found = plan_of({**QUARANTINE, **NAMED, **file}).dead_letter_obstacle("t", "t.dead", own)
    expected = f"t.dead, the dead letter topic of t, has its own policies ({keys})"
    assert expected in found if keys else found == ""


def test_the_file_may_not_name_a_topic_with_policies_of_its_own():
    file = {**NAMED, "topics.t.penstock.policies": "first", "topics.t.penstock.mode": "quarantine"}
    assert plan_of(file).for_topic("t").dead_letter_topic == "t.dead"
    own = {"topics.t.dead.penstock.policies": "second"}
    with pytest.raises(
        ConfigurationError, match=r"t\.dead, the dead letter topic of t, has its own"
    ):
        plan_of({**file, **own})


def test_dead_letters_of_a_topic_have_one_topic():
    names = {"errors.deadletterqueue.topic.name": "dlq.${topic}",
             "topics.a.errors.deadletterqueue.topic.name": "all.bad",
             "topics.b.errors.deadletterqueue.topic.name": "${topic}-${topic}"}  # fmt: skip
    plan = plan_of({**VALIDATED, **names})
    assert plan.must_not_exist("t", "dlq.t") == []
    assert plan.must_not_exist("t", "all.bad") == []
    assert set(plan.must_not_exist("t", "t.dead")) == {"dlq.t", "t-t"}
    assert plan.must_not_exist("t.dead", "dlq.t.dead") == ["t"], "it holds dead letters of t"
    assert plan.must_not_exist("t-t", "dlq.t-t") == ["t"]
    assert plan.must_not_exist("t-u", "dlq.t-u") == []
    assert plan.must_not_exist("dlq.t", "dlq.dlq.t") == ["t"]
