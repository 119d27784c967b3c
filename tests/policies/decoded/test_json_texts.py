"""JSON as values for columns: exact numbers, nothing that JSON does not have."""

from decimal import Decimal

import pytest

from penstock.policies.decoded.errors import NotDecodedError, NotJsonError
from penstock.policies.decoded.json_texts import read_json


def test_numbers_are_exact():
    text = b'{"a": 0.10, "b": 12345678901234567890123, "c": [1e2, null, true, "\xc3\xa4"]}'
    assert read_json(text) == {
        "a": Decimal("0.10"),
        "b": 12345678901234567890123,
        "c": [Decimal("1E+2"), None, True, "\xe4"],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"{} {}", b"NaN", b"[Infinity]", b'{"a": -Infinity}', b"\xff", b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
    ],
)  # fmt: skip
def test_texts_that_are_not_json(data):
    with pytest.raises(NotJsonError, match=r"^is not JSON$"):
        read_json(data)


@pytest.mark.parametrize("data", [b"9" * 5000, b"1e9999999999999999999", b"[" * 100_000])
def test_texts_that_are_too_large(data):
    with pytest.raises(NotDecodedError, match=r"^has thousands of digits or levels$") as raised:
        read_json(data)
    assert type(raised.value) is NotDecodedError
