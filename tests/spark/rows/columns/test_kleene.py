"""Three-valued verdicts."""

import itertools

import pyarrow as pa
import pytest

from penstock.spark.rows.columns.kleene import all_of, any_of, certain, chosen, opposite

pytestmark = pytest.mark.unit
VALUES = (True, False, None)


def as_list(verdict):
    return verdict.to_pylist() if isinstance(verdict, pa.Array) else [verdict]


def forms(value):
    """Return a verdict on all values, and the same as an array."""
    return value, pa.array([value], pa.bool_())


@pytest.mark.parametrize(("first", "second"), list(itertools.product(VALUES, VALUES)))
def test_all_forms_are_combined_in_the_same_way(first, second):
    both = False if False in {first, second} else None if None in {first, second} else True
    either = True if True in {first, second} else None if None in {first, second} else False
    for verdicts in itertools.product(forms(first), forms(second)):
        assert as_list(all_of(verdicts)) == [both]
        assert as_list(any_of(verdicts)) == [either]


def test_none_at_all():
    assert (all_of([]), any_of([])) == (True, False)


def test_nothing_follows_a_decisive_verdict():
    assert all_of(iter([False])) is False

    def verdicts():
        yield False
        raise AssertionError

    assert all_of(verdicts()) is False


@pytest.mark.parametrize("value", VALUES)
def test_opposites(value):
    expected = None if value is None else not value
    for form in forms(value):
        assert as_list(opposite(form)) == [expected]


def test_choices_and_certainty():
    where = pa.array([True, False, True])
    assert as_list(chosen(where, True, None)) == [True, None, True]
    assert as_list(chosen(where, pa.array([None, True, False]), False)) == [None, False, False]
    assert chosen(where, None, None) is None
    assert certain(pa.array([None, True, False]), 3).to_pylist() == [False, True, False]
    assert [certain(value, 1).to_pylist() for value in VALUES] == [[True], [False], [False]]
