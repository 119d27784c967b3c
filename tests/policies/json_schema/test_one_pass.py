"""Objects and arrays that are judged while they are read, as native/ does where the schema allows."""

import json

import pytest

from tests.policies.json_schema.schemas import check

SCHEMA = {
    "type": "object",
    "required": ["id", "lines", "either"],
    "properties": {
        "id": {"type": "string", "minLength": 2, "maxLength": 4},
        "lines": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"$ref": "#/definitions/line"},
        },
        "pair": {
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
        },
        "either": {"anyOf": [{"type": "integer"}, {"items": {"$ref": "#"}, "type": "array"}]},
        "unique": {"uniqueItems": True},
        "kind": {"enum": ["a", "b", None, 2]},
        "amount": {"exclusiveMinimum": 0, "multipleOf": 0.5},
        "code": {"pattern": "^[a-z]+$"},
    },
    "additionalProperties": {"type": ["number", "null", "object"]},
    "definitions": {
        "line": {"$ref": "#/definitions/other"},
        "other": {"properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    },
}
GOOD = b'"id": "abc", "lines": [{"n": 1}], "either": 1'
FITS = {
    "in order": b"{%s}" % GOOD,
    "in another order": b'{"either": 1, "lines": [{}], "id": "abc"}',
    "white space": b' {\n"id" :\t"abc" , "lines" : [ { } , {"n" : 2} ] , "either":1 } \r\n',
    "no white space": b'{"id":"abc","lines":[{"n":1}],"either":[]}',
    "an escaped name": b'{"\\u0069d": "abc", "lines": [{}], "either": 1}',
    "escapes": b'{"id": "\\u00e4\\n\\ud83d\\ude00", "lines": [{}], "either": 1}',
    "characters of several bytes": '{"id": "äöüß", "lines": [{}], "either": 1}'.encode(),
    "a name twice, both fit": b'{%s, "id": "ab"}' % GOOD,
    "a name twice, the last fits": b'{"id": 1, %s}' % GOOD,
    "an item that is read apart": b'{"id": "ab", "lines": [{}], "either": [{%s}, {%s}]}'
    % (GOOD, GOOD),
    "unknown names": b'{%s, "x": null, "": {"deep": [[], {}, "text"]}, "y": -1.5e3}' % GOOD,
    "constants": b'{%s, "kind": null, "kind": 2.0, "kind": "\\u0061"}' % GOOD,
    "numbers": b'{%s, "amount": 0.5, "amount": 1e1, "amount": 18446744073709551615}' % GOOD,
    "a pair": b'{%s, "pair": [1.0, "x"], "pair": [], "unique": [1, "1"]}' % GOOD,
    "a pattern": b'{%s, "code": "abc"}' % GOOD,
}
REFUSED = {
    "nothing": b"",
    "another type": b"[]",
    "a required name is missing": b'{"id": "abc", "lines": [{}]}',
    "a name that is cut": b'{"i": "abc", "lines": [{}], "either": 1}',
    "a longer name": b'{"idx": null, "lines": [{}], "either": 1}',
    "a name twice, the last does not fit": b'{%s, "id": 1}' % GOOD,
    "behind it": b"{%s} x" % GOOD,
    "a comma too many": b"{%s,}" % GOOD,
    "a comma too many in an array": b'{"id": "abc", "lines": [{},], "either": 1}',
    "a comma too few": b'{"id": "abc" "lines": [{}], "either": 1}',
    "a colon too few": b'{"id" "abc", "lines": [{}], "either": 1}',
    "a name without quotes": b"{%s, x: 1}" % GOOD,
    "not closed": b"{%s" % GOOD,
    "closed by another bracket": b"{%s]" % GOOD,
    "an array closed by another bracket": b'{"id": "abc", "lines": [{}}, "either": 1}',
    "no JSON in an unknown property": b'{%s, "x": {"y": [1, tru]}}' % GOOD,
    "too large in an unknown property": b'{%s, "x": {"y": 1e999}}' % GOOD,
    "half a pair in an unknown property": b'{%s, "x": {"y": "\\ud800"}}' % GOOD,
    "not UTF-8": b'{%s, "x": {"y": "\xff"}}' % GOOD,
    "too deep in an unknown property": b'{%s, "x": {"y": %s%s}}' % (GOOD, b"[" * 126, b"]" * 126),
    "too deep where it is read apart": b'{"id": "ab", "lines": [{}], "unique": %s%s}'
    % (b"[" * 127, b"]" * 127),
    "too short": b'{"id": "a", "lines": [{}], "either": 1}',
    "too many characters": '{"id": "äöüßa", "lines": [{}], "either": 1}'.encode(),
    "too few items": b'{"id": "abc", "lines": [], "either": 1}',
    "too many items": b'{"id": "abc", "lines": [{}, {}, {}, {}], "either": 1}',
    "an unknown name behind a reference": b'{"id": "abc", "lines": [{"m": 1}], "either": 1}',
    "an unknown property of another type": b'{%s, "x": "text"}' % GOOD,
    "no branch": b'{"id": "abc", "lines": [{}], "either": [{"id": 1}]}',
    "items that are equal": b'{%s, "unique": [1, 1.0]}' % GOOD,
    "no constant": b'{%s, "kind": "c"}' % GOOD,
    "a number too small": b'{%s, "amount": 0}' % GOOD,
    "no multiple": b'{%s, "amount": 0.75}' % GOOD,
    "an item too many": b'{%s, "pair": [1, "x", 2]}' % GOOD,
    "no match": b'{%s, "code": "a1"}' % GOOD,
}


@pytest.mark.parametrize("text", FITS.values(), ids=FITS.keys())
def test_fits(tmp_path, text, implementation):
    judged = check(tmp_path, SCHEMA, implementation=implementation)

    assert judged.objection(text) is None
    assert judged.check.all_fit((text,))


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_refused(tmp_path, text, implementation):
    judged = check(tmp_path, SCHEMA, implementation=implementation)

    assert judged.objection(text) is not None
    assert not judged.check.all_fit((text,))


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\\n", "a\nb", "\x7f", "ä", "", "a" * 300])
def test_any_name_is_found(tmp_path, name, implementation):
    schema = {"properties": {name: {"type": "integer"}}, "required": [name]}
    judged = check(tmp_path, schema, implementation=implementation)

    for ascii_only in (True, False):
        assert judged.objection(json.dumps({name: 1}, ensure_ascii=ascii_only).encode()) is None
        assert judged.objection(json.dumps({name: "1"}, ensure_ascii=ascii_only).encode())
    assert judged.objection(b'{"a\\nb": 1}' if name != "a\nb" else b'{"a\\\\nb": 1}')


def test_a_hundred_required_properties(tmp_path, implementation):
    names = [f"name-{number}" for number in range(100)]
    judged = check(tmp_path, {"required": names}, implementation=implementation)

    assert judged.objection(json.dumps(dict.fromkeys(names)).encode()) is None
    for missing in (names[0], names[63], names[64], names[99]):
        text = json.dumps(dict.fromkeys(name for name in names if name != missing)).encode()
        assert judged.objection(text) is not None


def test_the_reason_names_the_place(tmp_path, implementation):
    judged = check(tmp_path, SCHEMA, implementation=implementation)

    assert "/lines/1/n" in judged.objection(
        b'{"id": "abc", "lines": [{"n": 1}, {"n": "1"}], "either": 1}'
    )


def test_work_in_values_that_are_read_apart_is_bounded_together(tmp_path):
    reference = {"$ref": "#/definitions/node"}
    node = {"anyOf": [{"items": reference, "maxItems": 1}, {"items": reference, "maxItems": 2}]}
    schema = {"additionalProperties": reference, "definitions": {"node": node}}
    judged = check(tmp_path, schema)

    deep = b"[" * 100 + b"1,1,1" + b"]" * 100
    assert judged.objection(b'{"a": %s, "b": %s}' % (deep, deep)) is not None


CODES = [first + second for first in "ABCDEFGHIJ" for second in "ABCDEFGHIJKLMNOPQRSTUVWXY"]
WORK = {
    "properties": {"codes": {"type": "array", "maxItems": 200, "items": {"enum": CODES}}},
}
"""Judging an item by the last code takes many steps."""


def codes(count, last="JY"):
    return json.dumps({"codes": ["JY"] * (count - 1) + [last]}, separators=(",", ":")).encode()


@pytest.mark.parametrize("other", [codes(150_000), codes(150_000)[:-1], codes(200, "XX")])
def test_a_text_that_does_not_fit_takes_no_work_from_others(tmp_path, other, implementation):
    judged = check(tmp_path, WORK, implementation=implementation).check

    assert [position for position, _ in judged.refused([other] * 3 + [codes(180)])] == [0, 1, 2]


def test_a_text_that_took_much_work_keeps_its_reason(tmp_path, implementation):
    numbers = list(range(1000, 6000))
    schema = {"properties": {"a": {"items": {"enum": numbers}}, "b": {"maxItems": 3}}}
    judged = check(tmp_path, schema, implementation=implementation)

    last = json.dumps({"a": [5999] * 4000 + [1]}).encode()
    assert judged.objection(last).startswith("the value at /a/4000 must be one of")
    many = json.dumps({"b": [5999] * 8000}).encode()
    assert judged.objection(many) == "the value at /b has more items than 3"
