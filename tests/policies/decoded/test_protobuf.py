"""Messages of Protobuf as Python's values."""

import datetime as dt

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import Int64Value

from penstock.policies.decoded.errors import NotDecodedError
from penstock.policies.decoded.protobuf import plain_message
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


def test_a_timestamp_of_no_year():
    with pytest.raises(NotDecodedError, match="not between the years 1 and 9999"):
        plain_message(Timestamp(seconds=2**62))


def test_a_string_that_is_not_utf_8():
    order = order_class(syntax="proto2").FromString(b"\x12\x01\xff")
    with pytest.raises(NotDecodedError, match=r"^has a string that is not UTF-8$"):
        plain_message(order)
