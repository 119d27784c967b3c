"""Values as the clients' programs write them."""

import pytest

from tests.soak.records import (
    DEAD_PARTITIONS,
    Stored,
    dead_letter,
    has_right_marks,
    read,
    text_of,
    with_schema,
)


@pytest.mark.parametrize("letter", "gbndcCs")
def test_a_value_is_read_as_it_was_written(letter):
    text = text_of(letter, "Java/clean", 2, 17)

    assert read(1, text.encode(), 1.5) == Stored(1, letter, "Java/clean", 2, 17, 1.5)
    for schema_id in (1, 150, 300):  # 150 is no UTF-8
        found = read(1, with_schema(schema_id, text), 1.5)
        assert found == Stored(1, letter, "Java/clean", 2, 17, 1.5)


def test_bad_records_do_not_match_their_schema():
    assert b'"record": "g:' in with_schema(1, text_of("g", "p", 1, 0))
    assert b'"record": 17' in with_schema(1, text_of("b", "p", 1, 0))


@pytest.mark.parametrize("value", [b"", b"g:p:1", b"x:p:1:2", b"g:p:1:x", b"\0\0\0\0\1{}"])
def test_a_record_that_no_producer_sent_is_an_error(value):
    with pytest.raises((ValueError, KeyError)):
        read(0, value, 0.0)


class Message:
    def __init__(self, value=b"b:p:1:2", headers=None):
        self._value, self._headers = value, headers

    def value(self):
        return self._value

    def headers(self):
        return self._headers


HEADERS = {
    "__dlq.errors.topic": b"soak-quarantined", "__dlq.errors.partition": b"7", "__dlq.id": b"i",
    "__penstock.policy": b"policies.Bad", "__penstock.timestamp": b"1500",
}  # fmt: skip


def test_a_dead_letter_is_read_as_it_was_sent():
    found = dead_letter(Message(headers=list(HEADERS.items())))
    assert found == (b"i", Stored(DEAD_PARTITIONS + 7, "b", "p", 1, 2, 1.5))


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("value", [None, b""])
def test_records_that_are_not_dead_letters_are_an_error(header, value):
    headers = {name: found for name, found in HEADERS.items() if name != header}
    if value is not None:
        headers[header] = value
    with pytest.raises((ValueError, KeyError)):
        dead_letter(Message(headers=list(headers.items())))


def test_only_bad_records_have_marks():
    marks = [(f"__mark.errors.{name}", b"") for name in ("policy", "code", "message")]
    assert has_right_marks(Message(headers=marks), "b")
    assert has_right_marks(Message(), "g")
    assert not has_right_marks(Message(headers=marks), "g")
    assert not has_right_marks(Message(headers=marks[:2]), "b")
    assert not has_right_marks(Message(headers=marks * 2), "b")
