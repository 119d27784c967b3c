"""What the values of columns are in JSON."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.spark.rows.columns.parts import Part, part_of

pytestmark = pytest.mark.unit
BAD_TEXT = pa.array([b"a\xff", b"b"]).view(pa.string())


def as_list(verdict):
    return verdict.to_pylist() if isinstance(verdict, pa.Array) else verdict


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([True]), "boolean"),
        (pa.array([1]), "number"),
        (pa.array([0.5], pa.float32()), "number"),
        (pa.array(["a"]), "string"),
        (pa.array(["a"], pa.large_string()), "string"),
        (pa.array([b"a"]), "string"),
        (pa.array([dt.date(2024, 1, 1)]), "string"),
        (pa.array([0], pa.timestamp("us", "UTC")), "string"),
        (pa.array([[1]]), "array"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), "object"),
        (pa.array([{"a": 1}]), "object"),
        (pa.array([0], pa.duration("us")), None),
        (pa.array([{"v": b""}], pa.struct([pa.field("v", pa.binary(), metadata={"variant": "true"})])), None),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), None),
    ],
)  # fmt: skip
def test_kinds(array, kind):
    part = part_of(array, 2020)
    assert part.kind == kind
    assert as_list(part.is_of_kind) is (None if kind is None else True)


def test_bytes_that_are_no_text_have_no_known_content():
    part = part_of(BAD_TEXT, 2020)
    assert part.is_of_kind is True
    assert (part.is_one_of(["b"]), part.lengths, part.matches("^b")) == (None, None, None)
    assert part.is_one_of([1, None]) is False


def test_texts_are_compared_and_counted_in_characters():
    part = part_of(pa.array(["é", "EUR", ""]), 2020)
    assert as_list(part.is_one_of(["EUR", 1])) == [False, True, False]
    assert as_list(part.is_one_of(list("abcdef"))) == [False] * 3
    assert part.is_one_of(["\ufffd"]) is None
    assert as_list(part.lengths) == [1, 3, 0]
    assert as_list(part.matches("^E")) == as_list(part.matches("U|E")) == [False, True, False]


def test_dates_are_texts_where_all_calendars_agree():
    part = part_of(pa.array([dt.date(2024, 2, 29), dt.date(1582, 1, 1), None]), 2020)
    assert as_list(part.is_one_of(["2024-02-29"])) == [True, None, None]
    assert as_list(part.lengths) == [10, None, None]
    assert as_list(part_of(pa.array([dt.date(2024, 2, 29)]), 2020).matches("^2024")) == [True]


def test_constants_of_other_kinds():
    assert part_of(pa.array([[1]]), 2020).is_one_of(["a", {}]) is False
    assert part_of(pa.array([[1]]), 2020).is_one_of([[1]]) is None
    assert part_of(pa.array([{"a": 1}]), 2020).is_one_of([{}]) is None
    assert part_of(pa.array([b""]), 2020).is_one_of([""]) is None
    assert part_of(pa.array([True]), 2020).is_one_of([1, 0]) is False
    assert as_list(part_of(pa.array([True, False]), 2020).is_one_of([False])) == [False, True]
    assert part_of(pa.array([1.0, float("nan")]), 2020).is_one_of(["a"]) is None
    assert Part().is_one_of([]) is None


@pytest.mark.parametrize("start", [0, 1])
def test_items_are_judged_by_list(start):
    lists = pa.array([["x"], ["a", "b"], [], None, ["a", None]]).slice(start)
    part = part_of(lists, 2020)
    verdict = part.all(lambda items: part_of(items, 2020).is_one_of(["a"]))
    assert as_list(verdict) == [False, False, True, True, None][start:]
    assert as_list(part.all(lambda _: True)) is True
    assert as_list(part.all(lambda _: None)) == [None, None, True, True, None][start:]
    maps = pa.array([[("k", 1), ("l", 2)], [], [("m", 1)]], pa.map_(pa.string(), pa.int64()))
    part = part_of(maps.slice(start), 2020)
    verdict = part.all(lambda items: part_of(items, 2020).is_one_of([1]))
    assert as_list(verdict) == [False, True, True][start:]


@pytest.mark.parametrize("is_map", [False, True])
def test_items_of_a_null_list_are_not_looked_at(is_map):
    offsets, items = pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, -3, -4, 5])
    nulls = pa.array([False, True, False])
    if is_map:
        array = pa.MapArray.from_arrays(offsets, pa.array(list("abcde")), items, mask=nulls)
    else:
        array = pa.ListArray.from_arrays(offsets, items, mask=nulls)
    part = part_of(array, 2020)
    assert as_list(part.all(lambda values: pc.greater(values, 1))) == [False, True, True]
