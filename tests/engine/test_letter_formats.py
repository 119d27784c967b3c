"""Numbers in the headers of dead letters of others."""

import struct

import pytest

from penstock.engine.modes.letter_formats import (
    CONNECT,
    INT32,
    INT64,
    OTHERS,
    SPRING,
    SPRING_RETRIES,
    number_of,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"5", 5),
        (b" +7\t", 7),
        (b"-0", 0),
        (b"2147483647", 2**31 - 1),
        (b"-2147483648", -(2**31)),
        (b"2147483648", None),
        (b"-2147483649", None),
        (b"0" * 20, 0),
        (b"0" * 21, None),
        (b"", None),
        (b"1.5", None),
        (b"1e3", None),
        ("\uff15".encode(), None),
        (None, None),
    ],
)
def test_a_number_as_text(text, number):
    assert number_of(text, INT32) == number


def test_the_limit_is_that_of_the_field():
    assert number_of(b"2147483648", INT64) == 2**31
    assert number_of(b"9223372036854775808", INT64) is None


def test_spring_writes_numbers_as_big_endian_integers():
    assert SPRING.number(struct.pack(">i", -2), INT32) == -2
    assert SPRING.number(struct.pack(">q", 2**40), INT64) == 2**40
    assert SPRING_RETRIES.number(struct.pack(">q", 3), INT64) == 3


def test_a_binary_number_of_another_length_is_read_as_text():
    assert SPRING.number(b"12345678", INT32) == 12_345_678
    assert SPRING.number(b"1234", INT64) == 1234
    assert SPRING.number(struct.pack(">q", 3), INT32) is None
    assert SPRING.number(None, INT32) is None


def test_four_letters_are_text_where_numbers_are_texts():
    assert CONNECT.number(b"1234", INT32) == 1234
    assert CONNECT.number(struct.pack(">i", 5), INT32) is None


@pytest.mark.parametrize("form", OTHERS)
def test_the_headers_of_the_origin_have_the_prefixes_of_the_letter(form):
    names = (form.topic, form.partition, form.offset, form.timestamp)
    assert all(name is None or name.startswith(form.prefixes) for name in names)
