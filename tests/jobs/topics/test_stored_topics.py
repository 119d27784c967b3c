"""Names of topics for people, and the topics that a job writes to."""

import pytest

from penstock.jobs.topics.stored_topics import names_of, with_parked


@pytest.mark.parametrize(
    ("count", "end"),
    [(1, "t0"), (2, "t0, t1")],
)
def test_a_few_topics_are_named(count, end):
    assert names_of([f"t{number}" for number in range(count)]) == f"topic {end}"


def test_of_many_topics_the_first_are_named():
    text = names_of([f"t{number}" for number in range(2000)])
    shown, _, more = text.removeprefix("topic ").partition(" and ")
    named = shown.split(", ")
    assert named == [f"t{number}" for number in range(len(named))]
    assert more == f"{2000 - len(named):,} more"
    assert names_of([f"t{number}" for number in range(len(named))]) == f"topic {shown}"


def test_letters_of_targets_may_be_parked():
    assert with_parked(name for name in ("a", "b")) == {"a", "b", "a.parked", "b.parked"}
    assert with_parked(()) == frozenset()
