"""Which instances of KIP-686 can be closed while batches are in flight."""

from penstock.engine.workers.instance_usage import InstanceUsage


def test_an_instance_is_closed_after_its_last_batch():
    usage = InstanceUsage()
    usage.used("orders", "a.P")
    usage.used("orders", "a.P")
    assert list(usage.retain("orders", {"b.Q"})) == []
    assert not usage.free("orders", "a.P")
    assert usage.free("orders", "a.P")
    assert list(usage.retain("orders", ())) == []


def test_an_idle_instance_is_closed_once():
    usage = InstanceUsage()
    for name in ("a.P", "b.Q", "c.R"):
        usage.used("orders", name)
        usage.used("payments", name)
        assert not usage.free("orders", name)
    assert set(usage.retain("orders", {"b.Q"})) == {"a.P", "c.R"}
    assert list(usage.retain("orders", {"b.Q"})) == []
    assert list(usage.retain("orders", ())) == ["b.Q"]
    assert list(usage.retain("payments", ())) == []
    assert usage.free("payments", "a.P")


def test_an_instance_that_the_topic_has_again_stays():
    usage = InstanceUsage()
    usage.used("orders", "a.P")
    usage.used("orders", "b.Q")
    assert list(usage.retain("orders", ())) == []
    assert list(usage.retain("orders", {"a.P"})) == []
    assert not usage.free("orders", "a.P")
    assert usage.free("orders", "b.Q")
    assert list(usage.retain("orders", ())) == ["a.P"]


def test_a_topic_without_instances_has_nothing_to_close():
    assert list(InstanceUsage().retain("orders", {"a.P"})) == []
