"""Values as the clients' programs write them."""

import pytest

from tests.soak.records import Stored, read, text_of, with_schema


@pytest.mark.parametrize("letter", "gbndcCs")
def test_a_value_is_read_as_it_was_written(letter):
    text = text_of(letter, "Java/clean", 2, 17)

    assert read(1, text.encode(), 1.5) == Stored(1, letter, "Java/clean", 2, 17, 1.5)
    for schema_id in (1, 150, 300):  # 150 is no UTF-8
        found = read(1, with_schema(schema_id, text), 1.5)
        assert found == Stored(1, letter, "Java/clean", 2, 17, 1.5)


def test_what_is_bad_is_not_what_its_schema_says():
    assert b'"record": "g:' in with_schema(1, text_of("g", "p", 1, 0))
    assert b'"record": 17' in with_schema(1, text_of("b", "p", 1, 0))


@pytest.mark.parametrize("value", [b"", b"g:p:1", b"x:p:1:2", b"g:p:1:x", b"\0\0\0\0\1{}"])
def test_what_nobody_has_sent(value):
    with pytest.raises((ValueError, KeyError)):
        read(0, value, 0.0)
