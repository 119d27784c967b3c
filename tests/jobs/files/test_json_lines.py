"""Lines of JSON files: records, and errors that name the line and show nothing of it."""

import base64
import json

import pytest

from penstock.jobs.files.json_lines import JsonLine, WrongLineError, are_base64, looks_like_base64
from penstock.policy import Header

WHERE = "a.jsonl, line 7"


def line(**fields):
    return JsonLine(WHERE, json.dumps({"value": "v", **fields}).encode())


def test_all_columns():
    record = line(
        topic="t", partition=1, offset=2, timestamp=1_700_000_000_000, timestampType=1, key="k",
        headers=[{"key": "h", "value": "x"}, {"key": "n"}, {"key": "z", "value": None}],
        verdict={"any": 1},
    ).record(is_base64=False)  # fmt: skip
    assert record[:5] == ("t", 1, 2, 1_700_000_000_000, 1)
    assert record[5:] == (b"k", b"v", (Header("h", b"x"), Header("n", None), Header("z", None)))


def test_columns_that_are_missing_are_null():
    assert line(headers=None).record(is_base64=False) == (None,) * 6 + (b"v", ())


def test_base64():
    text = base64.b64encode(b"\0x").decode()
    record = line(value=text, key="", headers=[{"key": "h", "value": text}]).record(is_base64=True)
    assert record[5:] == (b"", b"\0x", (Header("h", b"\0x"),))
    assert line(value=text).record(is_base64=False)[6] == text.encode()


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"value": "a"}, "value"), ({"key": "!!!!"}, "key"), ({"headers": [{"key": "h", "value": "a"}]}, "a header")],
)  # fmt: skip
def test_a_text_behind_base64(fields, name):
    wrong = line(**{"value": "YWJj", **fields})
    with pytest.raises(WrongLineError, match=f"^{WHERE}: {name} must be base64, as in the lines"):
        wrong.record(is_base64=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True), ("YWJj", True), ("YWI=", True), ("YQ==", True), ("YQ=", False), ("YQ", False),
        ("YWJj\n", False), ("YW-_", False), ("YQ==YQ==", False), ("=", False), ("YWJjYQ==", True),
    ],
)  # fmt: skip
def test_a_text_that_can_be_base64(text, expected):
    assert looks_like_base64(text) is expected


def test_contents_are_base64_if_all_of_the_first_are():
    encoded, plain = line(value="YWJj"), line(value="abc")
    assert are_base64([])
    assert are_base64([encoded, line(value=None, key=None)])
    assert not are_base64([encoded, line(value="YWJj", key="abc")])
    assert not are_base64([encoded, line(value=None, headers=[{"key": "h", "value": "abc"}])])
    assert not are_base64([encoded] * 999 + [plain])
    assert are_base64([encoded] * 1000 + [plain])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "must be an object, not an array"),
        (b'"secret"', "must be an object, not a string"),
        (b"true", "must be an object, not a boolean"),
        (b"5", "must be an object, not a number"),
        (b"null", "must be an object, not null"),
        (b'{"headers": {}}', "headers must be a list such as"),
        (b'{"headers": [5]}', "headers must be a list such as"),
        (b'{"headers": [{"value": "secret"}]}', "headers must be a list such as"),
        (b'{"headers": [{"key": "a", "value": 5}]}', "headers must be a list such as"),
        (
            b'{"value": {"id": "secret"}}',
            "value must be a string or null, not an object: write its",
        ),
        (b'{"value": "", "key": false}', "key must be a string or null, not a boolean: write its"),
        (b'{"value": "", "Partition": 1}', "has no field Partition; did you mean partition?"),
        (b'{"value": "", "timestmp": 1}', "has no field timestmp; did you mean timestamp?"),
        (b'{"valeu": "secret"}', "has no field valeu; did you mean value?"),
        (b'{"id": "secret"}', 'has no value, but fields that are none of .*add "value": null'),
    ],
)
def test_a_line_that_is_no_record(text, fault):
    with pytest.raises(WrongLineError, match=f"^{WHERE}: .*{fault}") as raised:
        JsonLine(WHERE, text)
    assert "secret" not in str(raised.value)


def test_other_fields_are_left_out_where_the_value_is_there():
    assert line(id=5, note="x").record(is_base64=False)[6] == b"v"
    assert JsonLine(WHERE, b'{"value": null, "id": 5}').record(is_base64=False)[6] is None
    assert line(partition=1, Partition=2).record(is_base64=False)[1] == 1


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"topic": 5}, "topic must be a string or null, not a number$"),
        ({"partition": "1"}, "partition must be an integer or null, not a string$"),
        ({"partition": True}, "partition must be an integer or null, not a boolean$"),
        ({"partition": 1.0}, "partition must be an integer or null, not a number$"),
        ({"partition": 2**31}, "partition must be at most 2147483647$"),
        ({"offset": 2**63}, "offset must be at most 9223372036854775807$"),
        ({"timestampType": 2**31}, "timestampType must be at most 2147483647$"),
        ({"timestamp": "secret"}, "timestamp"),
    ],
)
def test_a_column_of_another_type(fields, fault):
    wrong = line(**fields)
    with pytest.raises(WrongLineError, match=f"^{WHERE}: .*{fault}") as raised:
        wrong.record(is_base64=False)
    assert "secret" not in str(raised.value)


def test_the_largest_numbers():
    record = line(partition=2**31 - 1, offset=2**63 - 1).record(is_base64=False)
    assert record[1:3] == (2**31 - 1, 2**63 - 1)


def test_single_surrogates_are_replaced_in_names_and_kept_in_contents():
    record = line(topic="a\ud800", value="a\ud800", headers=[{"key": "h\ud800"}])
    found = record.record(is_base64=False)
    assert (found[0], found[7][0].key) == ("a?", "h?")
    assert found[6] == "a\ud800".encode(errors="surrogatepass")
