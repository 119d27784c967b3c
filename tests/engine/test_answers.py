"""Results of policies that judge columns: valid and invalid."""

import numpy as np
import pytest

from penstock.engine.answers import AnswerError, read_objections, read_results


def raising():
    yield 0, "first"
    raise KeyError("second")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), {}),
        ([], {}),
        (iter(()), {}),
        ([(1, "b"), (0, "a")], {0: "a", 1: "b"}),
        ([[1, "b"]], {1: "b"}),
        ([(0, "first"), (0, "second")], {0: "first"}),
        ([(0, None), (0, "second")], {0: None}),
        ({0: "a", 1: "b"}.items(), {0: "a", 1: "b"}),
        (((n, "x") for n in range(2)), {0: "x", 1: "x"}),
        ([(n, "x") for n in np.flatnonzero([0, 1])], {1: "x"}),
        ([(0, np.str_("x"))], {0: "x"}),
    ],
)
def test_objections(given, expected):
    found = read_objections(given, 2)
    assert found == expected
    assert {type(position) for position in found} <= {int}
    assert {type(message) for message in found.values()} <= {str, type(None)}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (None, "returned NoneType; it must return an iterable"),
        (5, "returned int"),
        (True, "returned bool"),
        ([5], "returned int; it must return pairs of a position and a message"),
        ({0: "a"}, "returned int; it must return pairs"),
        (["ab"], "returned str; it must return pairs"),
        ([(0, "a", "b")], "returned tuple; it must return pairs"),
        ([(2, "a")], "returned position 2 in a batch of 2 records"),
        ([(-1, "a")], "returned position -1 in a batch of 2 records"),
        ([("0", "a")], "returned str as a position; it must be an int"),
        ([(0.0, "a")], "returned float as a position; it must be an int"),
        ([(True, "a")], "returned bool as a position; it must be an int"),
        ([(np.True_, "a")], "returned bool as a position; it must be an int"),
        ([(0, b"a")], "returned bytes as the message for position 0; it must be a str or None"),
        ([(0, "a"), (0, ValueError("b"))], "returned ValueError as the message for position 0"),
    ],
)
def test_an_error_about_an_invalid_objection_does_not_show_it(given, complaint):
    with pytest.raises(AnswerError) as caught:
        read_objections(given, 2)
    assert complaint in str(caught.value)


def test_an_iterator_that_raises_halfway_has_no_objections():
    for read in (read_objections, read_results):
        with pytest.raises(KeyError):
            read(raising(), 2)


def test_results_stand_once_and_are_not_looked_into():
    assert read_results([(1, "anything"), (0, None)], 2) == {0: None, 1: "anything"}
    with pytest.raises(AnswerError, match="two results for position 1"):
        read_results([(1, "a"), (1, "a")], 2)
    with pytest.raises(AnswerError, match=r"process_batch\(\) returned NoneType"):
        read_results(None, 2)
