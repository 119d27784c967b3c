"""Bytes after a prefix with which all fields begin."""

import pytest

from penstock.kafka.records.prefixes import after


@pytest.mark.parametrize(
    ("fields", "prefix", "expected"),
    [
        ([b"ab", b"abc", b"abd"], b"ab", (b"", b"c", b"d")),
        ([b"ab", b"abc"], b"", (b"ab", b"abc")),
        ([b"ab", b"abc"], b"abc", None),
        ([b"ab", b"a", b"ab"], b"ab", None),
        ([b"aa", b"ab", b"b"], b"a", None),
        ([b"Zz", b"aa", b"ab"], b"a", None),
        ([b"ab", None], b"ab", None),
        ([None], b"", None),
        ([None, None], b"", None),
        ([b""], b"", (b"",)),
        ([b""], b"a", None),
        ([], b"a", ()),
        ((b"\0\xff",), b"\0", (b"\xff",)),
    ],
)
def test_bytes_after_the_prefix_are_returned(fields, prefix, expected):
    assert after(fields, prefix) == expected
