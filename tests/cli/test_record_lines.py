"""Files of records, as `explain` and `suggest` read them, and the errors about other files."""

import json

import pytest

from penstock.cli.output.record_lines import records_in_file
from penstock.configuration import ConfigurationError
from penstock.policy import Header, Record


def read(path):
    return [(place, located.partition, located.record) for place, located in records_in_file(path)]


def test_each_line_is_a_record(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [
        {"value": "ä", "key": "", "timestamp": 5, "partition": 3, "topic": "t", "offset": 7},
        {"value_base64": "/wA=", "headers": [{"key": "a", "value": None}, {"key": "b", "value_base64": "AA=="}]},
        {"value": {"any": ["json"]}, "key": 1, "timestamp": "6", "headers": [{"key": 1}]},
    ]  # fmt: skip
    path.write_text("\n\n".join(map(json.dumps, lines)))
    assert read(path) == [
        (f"{path}:1", 3, Record(5, b"", "ä".encode(), ())),
        (f"{path}:3", 0, Record(-1, None, b"\xff\x00", (Header("a", None), Header("b", b"\x00")))),
        (f"{path}:5", 0, Record(6, b"1", b'{"any":["json"]}', (Header("1", None),))),
    ]


def test_timestamps_are_those_of_the_other_commands(tmp_path):
    path = tmp_path / "records.jsonl"
    times = ["2026-01-31T12:00:00Z", 1_769_860_800_000, None]
    path.write_text("\n".join(json.dumps({"value": "x", "timestamp": time}) for time in times))
    assert [record.timestamp for _, _, record in read(path)] == [
        1_769_860_800_000, 1_769_860_800_000, -1,
    ]  # fmt: skip


def test_byte_order_marks_and_lone_surrogates_are_read(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"value": "\\ud800", "key": {"a": "\\udfff"}}\r\n')
    [(_, _, record)] = read(path)
    assert (record.value, record.key) == (b"\xed\xa0\x80", b'{"a":"\xed\xbf\xbf"}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be an object with any of headers, key, key_base64, offset, partition, "),
        ('{"valu": "secret"}', "has no field valu; did you mean value?"),
        ('{"timestampType": 0}', "has no field timestampType; did you mean timestamp"),
        ('{"zone": 0}', "has no field zone; there are headers, key, key_base64, "),
        ('{"value_base64": "secret!"}', "value_base64 must be base64"),
        ('{"value_base64": 1}', "value_base64 must be base64"),
        ('{"timestamp": "secret"}', "timestamp must be an ISO time such as .* since 1970$"),
        ('{"timestamp": 1769860800}', "milliseconds since 1970, and not in seconds"),
        ('{"partition": "secret"}', "partition must be a whole number"),
        ('{"timestamp": Infinity}', "timestamp must be an ISO time such as"),
        ('{"headers": {"a": "secret"}}', r'headers must be a list such as \[{"key": "a", "value": "b"}\]'),
        ('{"headers": [1]}', "headers must be a list such as"),
        ('{"headers": [{"value": "secret"}]}', "headers must be a list such as"),
        ('{"headers": [{"key": "a", "value_base64": "secret!"}]}', "value_base64 must be base64"),
    ],
)  # fmt: skip
def test_the_error_about_an_invalid_line_does_not_contain_the_line(tmp_path, text, message):
    path = tmp_path / "records.jsonl"
    path.write_text('{"value": "x"}\n' + text)
    with pytest.raises(ConfigurationError, match=message) as raised:
        read(path)
    assert str(raised.value).startswith(f"{path}:2: ")
    assert "secret" not in str(raised.value)


def test_unreadable_files_are_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="none: cannot be read: No such file"):
        read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="binary: is not UTF-8 text"):
        read(tmp_path / "binary")
