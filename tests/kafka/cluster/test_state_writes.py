"""How writes of state end, and when they are trouble."""

from penstock.kafka.cluster.state_writes import StateWrites


def test_a_single_failure_is_no_trouble_yet():
    """The producer was replaced, perhaps: the next write shows it."""
    writes = StateWrites("a-topic")
    writes.ended("fatal")
    assert (writes.trouble, writes.why_not) == ("", "fatal")
    writes.ended("no leader")
    assert writes.trouble == "state cannot be written to a-topic: no leader"


def test_trouble_ends_with_the_first_write_that_succeeds():
    writes = StateWrites("a-topic")
    for _ in range(3):
        writes.ended("late", is_late=True)
    writes.ended(None)
    assert (writes.trouble, writes.why_not) == ("", "")
    assert (writes.written, writes.failed, writes.late) == (1, 0, 3)
