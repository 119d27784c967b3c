"""Records as columns, and back as policies see them."""

import pytest

from penstock.engine.columns import (
    MAX_LENGTH,
    as_proxies,
    as_records,
    columns_of,
    halves,
    put_in,
    starts,
)
from penstock.policy import Header, Record, RecordIntrospectionHints, RecordProxy

RECORDS = [
    Record(1, b"key", b"value", (Header("h", b"1"), Header("i", None))),
    Record(-1, None, b"", ()),
    Record(3, b"", None, (Header("i", b"2"),)),
]


def test_columns_are_records_again_any_number_of_times():
    columns = columns_of(RECORDS)
    assert list(as_records(columns)) == list(as_records(columns)) == RECORDS
    assert all(type(record) is Record for record in as_records(columns))


def test_headers_of_any_pairs_are_headers():
    (headers,) = columns_of([Record(1, b"", b"", [("h", b"1")])]).headers
    assert headers == (Header("h", b"1"),)
    assert headers[0].key == "h"


@pytest.mark.parametrize("positions", [(), (1,), (0, 2), (2, 1, 0)])
def test_some_records_are_picked(positions):
    columns = columns_of(RECORDS).pick(positions)
    assert columns.count == len(positions)
    assert list(as_records(columns)) == [RECORDS[position] for position in positions]


@pytest.mark.parametrize(("name", "has"), [("h", True), ("i", True), ("H", False)])
def test_a_header_of_any_record(name, has):
    assert columns_of(RECORDS).has_header(name) is has


def test_fields_after_a_prefix_are_those_of_all_records_or_none():
    same = columns_of([Record(0, b"ab", b"\0x", ()), Record(0, b"a", b"\0", ())])
    assert list(same.keys_after(b"a")) == [b"b", b""]
    assert list(same.values_after(b"\0")) == [b"x", b""]
    assert same.keys_after(b"ab") is None
    assert columns_of(RECORDS).values_after(b"v") is None


@pytest.mark.parametrize(("count", "first"), [(2, 1), (3, 1), (5, 2)], ids=["two", "three", "five"])
def test_halves_have_their_first_positions(count, first):
    records = [Record(number, None, None, ()) for number in range(count)]
    (zero, left), (middle, right) = halves(columns_of(records))
    assert (zero, middle) == (0, first)
    assert [*as_records(left), *as_records(right)] == records
    assert left.count == first


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (RecordIntrospectionHints(), [(r.headers, r.key, r.value) for r in RECORDS]),
        (RecordIntrospectionHints(False, 0, 0), [((), None, None)] * 3),
        (
            RecordIntrospectionHints(False, 2, MAX_LENGTH),
            [((), b"ke", b"value"), ((), None, b""), ((), b"", None)],
        ),
        (
            RecordIntrospectionHints(True, 0, 1),
            [(RECORDS[0].headers, None, b"v"), ((), None, b""), (RECORDS[2].headers, None, None)],
        ),
    ],
)
def test_only_fields_that_are_hinted_at_are_shown(hints, expected):
    found = list(as_proxies(columns_of(RECORDS), hints))
    assert found == expected
    assert all(type(record) is RecordProxy for record in found)


def test_a_field_that_is_requested_whole_is_not_copied():
    fields = [b"a" * 10]
    assert starts(fields, MAX_LENGTH, 1) is fields
    assert list(starts(fields, MAX_LENGTH - 1, 1)) == fields


def test_keys_and_values_are_replaced_at_their_positions():
    contents = ([b"a", None, b"c"], (b"1", b"2", b"3"))
    assert put_in(contents, [0, 2], ([None, b"z"], [b"x", None])) == (
        [None, None, b"z"],
        [b"x", b"2", None],
    )
    assert put_in(contents, [], ([], [])) == ([b"a", None, b"c"], [b"1", b"2", b"3"])
