"""Messages of Protobuf as Python's values."""

import datetime as dt

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import FloatValue, Int64Value

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.floats import Single
from penstock.policies.decoded.protobuf import plain_message
from penstock.policies.decoded.wanted import Wanted
from tests.policies.schema_policy.messages import order_class

EMPTY = {
    "id": 0, "ssn": "", "inner": None, "names": [], "others": [], "count": 0, "state": "NEW",
    "scores": {},
}  # fmt: skip


def test_a_message_without_fields_has_the_defaults_of_proto3():
    assert plain_message(order_class()()) == EMPTY


def test_fields_of_proto2_that_are_not_set_are_null():
    order = order_class(syntax="proto2")(id=0)
    assert plain_message(order) == {**dict.fromkeys(EMPTY), "id": 0, "names": [], "others": [],
                                    "scores": {}}  # fmt: skip


def test_all_kinds_of_fields():
    of = order_class()
    order = of(id=-1, ssn="x", inner=of(id=2), names=["a"], others=[of(id=3)], state=1)
    order.scores["k"].id = 4
    assert plain_message(order) == {
        **EMPTY, "id": -1, "ssn": "x", "inner": {**EMPTY, "id": 2}, "names": ["a"],
        "others": [{**EMPTY, "id": 3}], "state": "PAID", "scores": {"k": {**EMPTY, "id": 4}},
    }  # fmt: skip


def test_a_number_that_an_enum_does_not_have():
    assert plain_message(order_class()(state=7))["state"] == 7


def test_well_known_types():
    assert plain_message(Timestamp(seconds=-1, nanos=999_999_999)) == (
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)
    )
    assert plain_message(Int64Value(value=5)) == 5
    assert type(plain_message(FloatValue(value=0.1))) is Single


def flags_class():
    """Return a class for messages with a map of booleans and a number of 32 bits."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="flags.proto", package="flags", syntax="proto3")
    flags = file.message_type.add(name="Flags")
    flags.field.add(name="of", number=1, label=3, type=kinds.TYPE_MESSAGE,
                    type_name=".flags.Flags.OfEntry")  # fmt: skip
    flags.field.add(name="ratio", number=2, label=1, type=kinds.TYPE_FLOAT)
    entry = flags.nested_type.add(name="OfEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=kinds.TYPE_BOOL)
    entry.field.add(name="value", number=2, label=1, type=kinds.TYPE_INT64)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("flags.Flags"))


def test_keys_and_numbers_as_in_json():
    found = plain_message(flags_class()(of={True: 1, False: 2}, ratio=0.1))
    assert found["of"] == {"true": 1, "false": 2}
    assert (type(found["ratio"]), found["ratio"].shortest) == (Single, "0.1")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.4028234663852886e38, "3.4028235e+38"),
        (-1.401298464324817e-45, "-1e-45"),
        (16777216.0, "16777216"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (0.1, "0.1"),
        (0.12345678901, "0.12345678901"),
    ],
)
def test_the_shortest_text_of_a_number(number, text):
    """A number of 64 bits, as in no schema, has its own text."""
    found = Single(number).shortest
    assert float(found) == float(text) or found == text
    assert len(found) <= len(text)


def test_only_the_fields_of_the_column():
    of = order_class()
    order = of(id=1, inner=of(id=2, ssn="x"), others=[of()])
    line = Wanted({"id": Wanted({}), "SSN": Wanted({})})
    wanted = Wanted({"id": Wanted({}), "inner": line, "scores": Wanted(None, line)})
    order.scores["k"].id = 4
    assert plain_message(order, wanted) == {
        "id": 1, "inner": {"id": 2, "ssn": "x"}, "scores": {"k": {"id": 4, "ssn": ""}},
    }  # fmt: skip


def test_a_message_with_many_messages():
    """Each of them takes two bytes, and a dictionary of all its fields."""
    of = order_class()
    order = of.FromString(b"\x2a\x00" * 112_000)
    with pytest.raises(NotDecodedError, match=r"^has more than 1,000,000 fields in its messages$"):
        plain_message(order)
    assert plain_message(order, Wanted({"id": Wanted({})})) == {"id": 0}


def test_a_timestamp_of_no_year():
    with pytest.raises(NotDecodedError, match="not between the years 1 and 9999"):
        plain_message(Timestamp(seconds=2**62))


def test_a_string_that_is_not_utf_8():
    order = order_class(syntax="proto2").FromString(b"\x12\x01\xff")
    with pytest.raises(NotDecodedError, match=r"^has a string that is not UTF-8$"):
        plain_message(order)
