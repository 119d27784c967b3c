"""The trees of expressions."""

import pytest

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.rules.checked import (
    Call,
    Constant,
    Loop,
    Name,
    Part,
    names_in,
    patterns_in,
    read_tree,
    texts_in,
)
from penstock.policies.schema_policy.rules.program import Language

LANGUAGE = Language(["message"])


def tree_of(text):
    return read_tree(LANGUAGE._environment.compile(text).serialize())


def test_calls_parts_and_constants():
    tree = tree_of("message.a + 1 > 2")
    assert tree == Call(
        "_>_",
        (Call("_+_", (Part(Name("message"), "a"), Constant(1)), is_scalar=True), Constant(2)),
        is_scalar=True,
    )


def test_a_receiver_is_the_first_argument():
    tree = tree_of("message.a.contains('x')")
    assert tree == Call("contains", (Part(Name("message"), "a"), Constant("x")), is_scalar=True)


def test_has_tests_for_a_part():
    assert tree_of("has(message.a.b)") == Part(Part(Name("message"), "a"), "b", is_tested=True)


def test_loops():
    tree = tree_of("message.items.all(x, x > 1)")
    assert isinstance(tree, Loop)
    assert tree.names == ("x",)
    assert tree.collection == Part(Name("message"), "items")


def test_the_parts_of_a_tree():
    tree = tree_of("message.a.matches('^a+$') && message.b == 'x' && now > timestamp('2020')")
    assert names_in(tree) == {"message", "now"}
    assert texts_in(tree) == {"^a+$", "x", "2020"}
    assert patterns_in(tree, "matches") == {"^a+$"}


def test_lists_maps_and_messages():
    assert texts_in(tree_of("[{'a': ['b']}, null] == [message, b'c']")) == {"a", "b"}


def test_bytes_that_are_no_expression():
    with pytest.raises(InvalidSchemaError, match="nested too deeply"):
        read_tree(b"\xff")


def test_an_expression_whose_types_are_not_checked():
    expression = LANGUAGE._environment.compile("1 > 2.5", disable_check=True)
    tree = read_tree(expression.serialize())
    assert tree == Call("_>_", (Constant(1), Constant(2.5)), is_scalar=False)
