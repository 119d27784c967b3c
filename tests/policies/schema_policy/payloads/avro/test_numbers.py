"""Numbers of variable length, against arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policies.schema_policy.payloads.avro.numbers import (
    TooLongError,
    read_block,
    read_length,
    read_number,
)


def encoded(number, padding=0):
    left = number * 2 if number >= 0 else -number * 2 - 1
    groups = []
    while True:
        groups.append(left % 128)
        left //= 128
        if not left:
            break
    groups += [0] * padding
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_long_is_read_where_it_is(number, before, behind):
    data = before + encoded(number) + behind
    end = len(before) + len(encoded(number))
    assert read_number(data, len(before)) == (number, end)


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_int_is_read(number):
    assert read_number(encoded(number), 0, 32) == (number, len(encoded(number)))


@pytest.mark.parametrize(("bits", "longest"), [(32, 5), (64, 10)])
def test_the_longest(bits, longest):
    assert read_number(encoded(0, longest - 1), 0, bits) == (0, longest)
    for data in (encoded(0, longest), encoded(2 ** (bits - 1)), encoded(-(2 ** (bits - 1)) - 1)):
        with pytest.raises(TooLongError):
            read_number(data, 0, bits)
    with pytest.raises(IndexError):
        read_number(b"\x80" * (longest - 1), 0, bits)


def test_lengths_are_not_negative():
    assert read_length(b"\x08", 0) == (4, 1)
    with pytest.raises(ValueError):
        read_length(b"\1", 0)


def test_a_block_has_the_number_of_items_and_its_end():
    assert read_block(b"\4", 0) == (2, 1, 0)
    assert read_block(b"\3\x0a", 0) == (2, 2, 7)
    with pytest.raises(ValueError):
        read_block(b"\3\1", 0)
