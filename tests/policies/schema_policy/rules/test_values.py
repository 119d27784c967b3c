"""Values are converted for CEL completely."""

import pytest
from cel_expr_python import cel
from google.protobuf import struct_pb2

from penstock.policies.schema_policy.rules.program import Language
from penstock.policies.schema_policy.rules.values import (
    EvaluationError,
    size_of,
    to_cel,
)
from penstock.policies.schema_policy.rules.variables import Variables
from tests.policies.schema_policy.messages import order_class

LANGUAGE = Language(["message"])
EVIL = "a@b.co\0<script>"


def holds(text, value, language=LANGUAGE):
    return language.compile(text).holds(Variables({"message": value}))


def test_the_package_still_cuts_values_at_their_first_nul():
    """Where this fails, the package is mended, and `to_cel` need not wrap anything any more."""
    environment = cel.NewEnv(variables={"given": cel.Type.DYN})
    size = environment.compile("size(given)")
    assert size.eval(data={"given": "ab\0cd"}).value() == 2
    assert size.eval(data={"given": b"ab\0cd"}).value() == 2
    keys = environment.compile("given.all(key, size(key) == 1)")
    assert keys.eval(data={"given": {"a\0b": 1}}).value() is True


@pytest.mark.parametrize("shape", ["{}", "{}.a", "{}[0]", "{}.a[0].b"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}.isEmail()", False),
        ("size({}) <= 6", False),
        ("size({}) == 15", True),
        ("!{}.contains('<script>')", False),
        ("{}.matches('^[a-z@.]+$')", False),
        ("{}.endsWith('.co')", False),
        ("{}.startsWith('a@b.co')", True),
        ("{} == 'a@b.co'", False),
        ("{} == 'a@b.co\\u0000<script>'", True),
        ("{} in ['a@b.co']", False),
        ("{}.split('<')[0].size() == 7", True),
        ("({} + 'x').size() == 16", True),
    ],
)
def test_text_with_a_nul_is_judged_as_a_whole(shape, text, expected):
    value = EVIL
    if shape.endswith(".b"):
        value = {"b": value}
    if "[0]" in shape:
        value = [value, 1]
    if ".a" in shape:
        value = {"a": value}
    assert holds(text.format(shape.format("message")), value) is expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size(message) == 3", b"a\0b"),
        ("message.a == b'a\\x00b'", {"a": b"a\0b"}),
        ("size(message[0]) == 1 && size(message[1]) == 0", [b"\0", b""]),
        ("message.a == '\\\\u0000'", {"a": "\\u0000"}),
    ],
)
def test_bytes_with_a_nul_too(text, value):
    assert holds(text, value) is True


@pytest.mark.parametrize(
    "value", [{"a\0b": 1}, {"a": {"b\0": 1}}, {"a": [{"\0": 1}]}, {"a\0": 2**70}]
)
def test_a_map_with_a_nul_in_a_key_cannot_be_judged(value):
    with pytest.raises(EvaluationError, match="a key of a map has a NUL character"):
        holds("message == message", value)


def test_messages_arrive_as_a_whole():
    of = order_class()
    language = Language(["message"], of.DESCRIPTOR.file.pool)
    message = of(ssn=EVIL, names=[EVIL])
    for text in (
        "size(message.ssn) == 15",
        "!message.ssn.isEmail()",
        "size(message.names[0]) == 15",
    ):
        assert holds(text, message, language) is True, text
    for text in ("size(message) == 15", "!message.isEmail()"):
        assert holds(text, message.ssn, language) is True, text
    assert holds("size(message[0]) == 15", message.names, language) is True


def test_literals_of_expressions_arrive_as_a_whole():
    assert holds("size('ab\\u0000cd') == 5", None) is True
    assert holds("size('ab\0cd') == 5", None) is True
    assert holds("size(b'\\x00\\x00') == 2", None) is True


def test_a_value_without_a_nul_is_unchanged():
    value = {"a": [1, 2.5, "x", b"y", None, True, {"b": 2**63}]}
    assert to_cel(value).value is value


@pytest.mark.parametrize(
    "value",
    ["x" * 100, {"a": "x" * 100}, [b"x" * 100], {"a": [1] * 50}, {"n": [2**70] * 100}, [[[]]] * 40],
)
def test_the_weight_is_no_less_than_the_size(value):
    assert to_cel(value).weight >= size_of(value).weight * 0.6


def test_the_size_of_values():
    assert size_of("abc") == (4, 0, 0)
    assert size_of([1, 2, [3]]).longest == 3
    assert size_of({"a": 1, "b": [1, 2, 3]}).longest == 3
    of = order_class()
    assert size_of(of(names=["a"] * 5, ssn="123")).longest == 5


def without_kind():
    """Messages with a google.protobuf.Value that is not set, as any producer can send them."""
    of = struct_pb2.Struct()
    of.fields["k"].SetInParent()
    many = struct_pb2.ListValue(values=[struct_pb2.Value(), struct_pb2.Value(string_value="abc")])
    return of, many


def test_the_size_of_values_that_are_not_set():
    assert [size_of(message).longest for message in without_kind()] == [1, 2]
    assert size_of(list(without_kind())).longest == 2


def test_messages_in_lists_and_maps_are_given_as_they_are():
    of, many = without_kind()
    for given in ([of, EVIL], {"a": many, "b": EVIL}):
        assert holds("size(message) == 2", given) is True
    assert holds("message[0].k == null", [of, EVIL]) is True
    assert holds("size(message[0]) == 2", [many, EVIL]) is True


def test_nested_deeply():
    value = []
    for _ in range(400):
        value = [value]
    assert to_cel(value).value == value
