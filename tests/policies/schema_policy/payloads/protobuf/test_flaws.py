import pytest

from penstock.policies.schema_policy.payloads.protobuf.flaws import (
    MAX_STEPS,
    Flaws,
)
from tests.policies.schema_policy.payloads.protobuf.files import (
    EDITION,
    OLD,
    SHOP,
    inside,
    schema,
)

SECRET = b"4111111111111111"


def flaw(text, name, data, *, unknown=False):
    descriptor = schema(text, name)._only[0].descriptor
    return Flaws().find(data, descriptor, allow_unknown_fields=unknown).text


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", None),
        (inside(9, SECRET), "unknown field 9 in shop.Order"),
        (inside(3, inside(9, SECRET)), "unknown field 9 in shop.Order.Line at lines"),
        (b"\x08\x01", "id of shop.Order is encoded as another type"),
        (inside(1, b"\xff" + SECRET), "id is not UTF-8"),
        (inside(3, inside(1, b"\xff")), "lines.sku is not UTF-8"),
        (b"\x0a\x7f" + SECRET, "ends in the middle of a field at id"),
        (inside(3, b"\x0a\x7f" + SECRET), "ends in the middle of a field at lines.sku"),
        (b"\x3d\x01", "ends in the middle of a field"),
        (b"\x02", "has a field with a number that no field can have"),
        (b"\x0e", "has a field of an unknown wire type"),
        (b"\x0c", "has an end of a group without its start"),
        (b"\x4b\x4b\x4c", "unknown field 9 in shop.Order"),
        (b"\x80" * 11, "has a number of more than 10 bytes"),
        (inside(4, b"\x01\x02\x03"), None),
        (b"\x20\x01", None),
        (inside(3, b"\x20\x63"), None),
    ],
)
def test_the_flaw_is_named(data, message):
    assert flaw(SHOP, "shop.Order", data) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "required field id of old.Whole is missing"),
        (b"\x08\x01" + inside(3, b""), "required field name of old.Part is missing at parts"),
        (
            b"\x08\x01" + inside(2, inside(1, b"n") + b"\x10\x63"),
            "part.size has a number that its enum does not have",
        ),
        (
            b"\x08\x01\x33" + inside(2, b"\x01\x63") + b"\x34",
            "box.packed has a number that its enum does not have",
        ),
        (b"\x08\x01\x33\x34", None),
        (b"\x08\x01\x33\x3c", "has an end of a group without its start at box"),
        (b"\x08\x01\x33", "ends in the middle of a field at box"),
        (b"\x08\x01" + inside(7, b"\xff"), None),
        (b"\x08\x01" + inside(100, inside(1, b"n")), None),
        (b"\x08\x01" + inside(102, b""), "unknown field 102 in old.Whole"),
        (b"\x08\x01" + inside(100, b""), "required field name of old.Part is missing at spare"),
    ],
)
def test_proto2(data, message):
    assert flaw(OLD, "old.Whole", data) == message


def test_editions():
    assert flaw(EDITION, "modern.Item", b"\x20\x01" + inside(1, b"\xff")) == "checked is not UTF-8"
    assert flaw(EDITION, "modern.Item", b"\x20\x01" + inside(2, b"\xff")) is None
    assert flaw(EDITION, "modern.Item", b"\x20\x01\x1b\x20\x01\x1c") is None
    assert flaw(EDITION, "modern.Item", b"\x20\x01\x1b\x1c") == (
        "required field needed of modern.Item is missing at delimited"
    )


def test_unknown_fields_may_be_allowed():
    groups = b"\x4b" * 50 + b"\x4c" * 50
    assert flaw(SHOP, "shop.Order", inside(9, SECRET) + groups, unknown=True) is None
    assert flaw(SHOP, "shop.Order", b"\x4b\x54", unknown=True) == (
        "has an end of a group without its start"
    )


def test_no_more_than_so_many_numbers_are_read():
    assert flaw(SHOP, "shop.Order", b"\x20\x01" * (MAX_STEPS // 2) + inside(9, b"")) is None
    assert flaw(SHOP, "shop.Order", b"\x20\x01" * (MAX_STEPS // 2 - 1) + inside(9, b""))
