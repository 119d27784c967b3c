"""Hints at a producer: letters of keys, and keys of headers."""

import pytest

from penstock.jobs.report.hints import header_keys, key_prefix


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        (None, "(no key)"),
        (b"", "(other)"),
        (b"shop-17", "shop"),
        (b"17-shop", "(other)"),
        (b"\xffshop", "(other)"),
        (b"Abc\xff", "Abc"),
        (b"x" * 40, "x" * 16),
    ],
)
def test_only_letters_of_a_key_are_shown(key, prefix):
    assert key_prefix(key) == prefix


def test_header_keys_are_one_bounded_text():
    assert header_keys(["source", "trace-id"]) == "source, trace-id"
    assert header_keys([]) == ""
    assert len(header_keys(["k" * 60] * 9)) == 100
