"""`penstock check --connect`: dead letter topics that need more brokers than the cluster has."""

from penstock.cli.checks.dead_letter_replicas import replicas_warnings
from tests.engine.plans import QUARANTINE, VALIDATED, plan_of

KEY = "errors.deadletterqueue.topic.replication.factor"
THREE = "3 replicas need 3 brokers, and the cluster has 1: "


def warnings_of(properties, topics=(), brokers=1):
    topics = topics if isinstance(topics, dict) else {name: {} for name in topics}
    return list(replicas_warnings(plan_of(properties), topics, brokers))


def test_the_default_needs_three_brokers():
    [line] = warnings_of(QUARANTINE, ["orders"])
    assert line == (
        f"warning: {KEY} (default 3): {THREE}topic orders.dead cannot be created, so dead letters "
        f"cannot be stored; set {KEY}=1, or create the topic"
    )
    assert warnings_of(QUARANTINE, ["orders"], brokers=3) == []


def test_two_brokers_are_enough_for_two_replicas():
    [line] = warnings_of(QUARANTINE, ["orders"], brokers=2)
    assert "the cluster has 2: " in line
    assert line.endswith(f"set {KEY}=2, or create the topic")
    assert warnings_of(QUARANTINE | {KEY: "2"}, ["orders"], brokers=2) == []


def test_the_configuration_line_that_applies_is_named():
    of_file = QUARANTINE | {KEY: "5"}
    assert warnings_of(of_file, ["orders"])[0].startswith(f"warning: {KEY}=5: 5 replicas need 5 ")
    pattern = QUARANTINE | {f"topics.o*.{KEY}": "5", KEY: "1"}
    [line] = warnings_of(pattern, ["orders", "orders-2", "a"])
    assert line.startswith(f"warning: topics.o*.{KEY}=5: ")
    assert f"set topics.o*.{KEY}=1, or create the topics" in line
    assert "orders-2.dead, orders.dead cannot be created" in line


def test_only_some_of_many_topics_are_named():
    [line] = warnings_of(QUARANTINE, [f"t{number}" for number in range(9)])
    assert "t0.dead, t1.dead, t2.dead, t3.dead, t4.dead and 4 more cannot be created" in line


def test_an_existing_topic_does_not_have_to_be_created():
    assert warnings_of(QUARANTINE, ["orders", "orders.dead"]) == []


def test_topics_that_are_not_in_quarantine_have_no_dead_letters():
    assert warnings_of(VALIDATED, ["orders"]) == []
    own = {"orders": {"penstock.mode": "quarantine"}}
    assert len(warnings_of(VALIDATED, own)) == 1


def test_a_pattern_of_the_file_counts_before_its_topics_exist():
    [line] = warnings_of(VALIDATED | {"topics.new-*.penstock.mode": "quarantine"})
    assert "new-*.dead cannot be created" in line
    assert line.endswith("or create the topics")
