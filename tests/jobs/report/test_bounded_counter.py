"""Counts of many different keys: the frequent keys exactly, all of them in the sum."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.report.bounded_counter import BoundedCounter


def filled(limit, keys):
    counter = BoundedCounter(limit)
    for key in keys:
        counter.add(key)
    return counter


def test_counts_are_exact_while_there_are_few_keys():
    counter = filled(2, "aaabbc")
    assert dict(counter.items()) == {"a": 3, "b": 2, "c": 1}
    assert (counter["a"], counter["z"], "c" in counter, "z" in counter) == (3, 0, True, False)
    assert counter.most_common(2) == ([("a", 3), ("b", 2)], 1)


def test_the_rarest_are_left_out_and_still_in_the_sum():
    counter = BoundedCounter(2)
    pruned = [counter.add(key) for key in "aabbcde"]
    assert pruned == [False] * 6 + [True]
    assert dict(counter.items()) == {"a": 2, "b": 2}
    assert (counter.left_out, counter.total()) == (3, 7)
    assert counter.most_common(1) == ([("a", 2)], 5)


def test_the_same_counts_are_in_the_same_order():
    assert filled(5, "abc").most_common(3) == filled(5, "cba").most_common(3)


@pytest.mark.thorough
@given(st.lists(st.lists(st.integers(0, 30))), st.integers(1, 5))
def test_merged_counters_are_bounded_never_too_high_and_add_up(parts, limit):
    merged = BoundedCounter(limit)
    for part in parts:
        merged.merge(filled(limit, part))
    truth = Counter(key for part in parts for key in part)
    assert len(merged) <= 2 * limit
    assert merged.total() == truth.total()
    assert all(count <= truth[key] for key, count in merged.items())
    if len(truth) <= 2 * limit:
        assert dict(merged.items()) == truth
