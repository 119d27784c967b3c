import pytest

from penstock.policies.schema_policy.message_indexes import (
    MAX_INDEXES,
    MessageIndexError,
    read_indexes,
)


def test_a_single_byte_0_is_the_first_message():
    assert read_indexes(b"\x00rest") == ((0,), 1)


def test_a_count_and_positions_are_zigzag_varints():
    assert read_indexes(b"\x04\x02\x80\x01rest") == ((1, 64), 4)
    assert read_indexes(b"\x02\x00") == ((0,), 2)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "ends before its message indexes do"),
        (b"\x80", "ends before its message indexes do"),
        (b"\x04\x02", "ends before its message indexes do"),
        (b"\x01", "has a wrong number of message indexes, -1"),
        (bytes([2 * MAX_INDEXES + 2]) + bytes(100), "has a wrong number of message indexes, 33"),
        (b"\xff\xff\xff\xff\x0f", "has a wrong number of message indexes, -2147483648"),
        (b"\x02\x01", "has a negative message index"),
        (b"\x80\x80\x80\x80\x80\x00", "has a message index of more than 32 bits"),
        (b"\x02\xff\xff\xff\xff\x1f", "has a message index of more than 32 bits"),
    ],
)
def test_invalid_indexes_are_reported(payload, message):
    with pytest.raises(MessageIndexError, match=f"^{message}$"):
        read_indexes(payload)
