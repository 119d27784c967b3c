"""Records in files: how they are read, and the errors about other files."""

import base64
import datetime as dt
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.modes.dead_letters import own_headers
from penstock.errors import UnavailableError
from penstock.jobs.files.json_lines import SEEN
from penstock.jobs.files.listing import ListedFiles, find_files
from penstock.jobs.files.reading import (
    are_in_order,
    are_listed_base64,
    check_listed,
    read_files,
)
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header

TYPES = pa.schema([
    ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
    ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip
NOW_MS = 1_763_719_200_000
NOW = dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)


def lines(path, *made):
    path.write_text("".join(json.dumps(record) + "\n" for record in made))
    return str(path)


def test_json_as_spark_writes_it(tmp_path):
    def encoded(text):
        return base64.b64encode(text).decode()

    path = lines(
        tmp_path / "records.json",
        {"key": encoded(b"k"), "value": encoded(b"\xff\x00"), "topic": "t", "partition": 3,
         "offset": 2**50, "timestamp": "2025-11-21T10:00:00.000Z", "timestampType": 0,
         "headers": [{"key": "a", "value": encoded(b"1")}, {"key": "b"}]},
        {"topic": "t", "partition": 3, "offset": 7},
    )  # fmt: skip
    assert list(read_files(path)) == [
        RecordRow("t", 3, 2**50, NOW_MS, 0, b"k", b"\xff\x00", (Header("a", b"1"), Header("b", None))),
        RecordRow("t", 3, 7, None, None, None, None, ()),
    ]  # fmt: skip


def test_json_written_by_hand(tmp_path):
    lines(tmp_path / "one.jsonl", {"value": "ä", "timestamp": "2025-11-21 10:00:00"}, {})
    lines(tmp_path / "two.jsonl", {"value": "good", "key": "k", "timestamp": NOW_MS})
    assert list(read_files(str(tmp_path / "*.jsonl"))) == [
        RecordRow(None, None, None, NOW_MS, None, None, "ä".encode(), ()),
        RecordRow(None, None, None, None, None, None, None, ()),
        RecordRow(None, None, None, NOW_MS, None, b"k", b"good", ()),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"value": "\\ud800', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be an object, not an array"),
        ("1", "must be an object, not a number"),
        ("null", "must be an object, not null"),
        ('{"value": {"id": "secret"}}',
         "value must be a string or null, not an object: write its JSON text as a string, such as"),
        ('{"value": 1}', "value must be a string or null, not a number: write its JSON text"),
        ('{"key": ["secret"]}', "key must be a string or null, not an array: write its JSON text"),
        ('{"topic": 1}', "topic must be a string or null, not a number$"),
        ('{"partition": "0"}', "partition must be an integer or null, not a string$"),
        ('{"offset": true}', "offset must be an integer or null, not a boolean$"),
        ('{"offset": 1.5}', "offset must be an integer or null, not a number$"),
        ('{"timestamp": "secret"}',
         "timestamp must be an ISO time such as 2026-01-31T12:00:00Z, or milliseconds since 1970$"),
        ('{"timestamp": 1769860800}', "timestamp must be .* since 1970, and not in seconds$"),
        ('{"partition": 2147483648}', "partition must be at most 2147483647$"),
        ('{"offset": 9223372036854775808}', "offset must be at most 9223372036854775807$"),
        ('{"timestampType": "0"}', "timestampType must be an integer or null, not a string$"),
        ('{"Value": "secret"}', r"a record has no field Value; did you mean value\?$"),
        ('{"value": "x", "header": []}', r"a record has no field header; did you mean headers\?$"),
        ('{"topic": "t", "payload": "secret"}',
         "has no value, but fields that are none of key, value, .*; if the value is null, add"),
        ('{"timestamp": {}}', "timestamp must be an ISO time"),
        ('{"headers": {}}', r'headers must be a list such as \[{"key": "a", "value": "b"}\]$'),
        ('{"headers": [1]}', "headers must be a list such as"),
        ('{"headers": [{"key": "a", "value": 1}]}', "headers must be a list such as"),
        ('{"headers": [{"value": "secret"}]}', "headers must be a list such as"),
    ],
)  # fmt: skip
def test_lines_that_are_not_records_are_reported_without_their_contents(tmp_path, text, message):
    path = tmp_path / "records.jsonl"
    path.write_text('{"value": "x"}\n\n' + text + "\n")
    with pytest.raises(ConfigurationError, match=f"line 3: {message}") as raised:
        list(read_files(str(path)))
    assert str(raised.value).startswith(f"--input {path}, line 3: ")
    assert "secret" not in str(raised.value)


def test_other_fields_are_left_out(tmp_path):
    """Such as further columns of a frame that Spark wrote."""
    made = {"value": "x!", "day": "2026-01-31", "verdict": {"outcome": "accepted"}}
    path = lines(tmp_path / "records.jsonl", made, {**made, "value": None}, {"verdict": {}})
    assert [record.value for record in read_files(path)] == [b"x!", None, None]


def test_invalid_base_64_behind_many_valid_values(tmp_path):
    path = lines(tmp_path / "records.jsonl", *[{"value": "YQ=="}] * SEEN, {"value": "secret!"})
    with pytest.raises(
        ConfigurationError, match=f"line {SEEN + 1}: value must be base64, as "
    ) as e:
        list(read_files(path))
    assert "secret" not in str(e.value)


def listed(path):
    return ListedFiles.of(str(path), find_files(str(path)))


def test_lines_of_a_file_and_of_a_folder_are_checked(tmp_path):
    path = lines(tmp_path / "records.jsonl", {"value": "x"}, {"value": {}})
    for given in (path, tmp_path):
        with pytest.raises(ConfigurationError, match="line 2: value must be a string"):
            check_listed(listed(given))
    assert check_listed(listed(lines(tmp_path / "good.jsonl", {"value": "x"}, {}))) == 2


def test_whether_contents_are_read_as_base_64(tmp_path):
    """So that the user can be warned of text that looks like it."""

    def looks(path):
        return are_listed_base64(listed(path))

    assert looks(lines(tmp_path / "words.jsonl", {"value": "good"}, {"key": "YQ=="}))
    assert not looks(lines(tmp_path / "text.jsonl", {"value": "good"}, {"key": "a"}))
    assert not looks(lines(tmp_path / "none.jsonl", {"value": None}))
    assert not looks(tmp_path)


def test_of_a_long_file_all_lines_are_checked(tmp_path):
    path = lines(tmp_path / "records.jsonl", *[{"value": "x"}] * SEEN, {"value": {}})
    with pytest.raises(ConfigurationError, match=f"line {SEEN + 1}: value must be a string"):
        check_listed(listed(path))


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        ("+55840-11-08T22:15:23.456Z", 1_700_000_000_123_456),
        ("+55840-11-08T23:15:23.456+01:00", 1_700_000_000_123_456),
        ("-0002-12-17T14:13:20.000Z", -62_200_000_000_000),
        ("-0002-12-17T15:06:48.000+00:53:28", -62_200_000_000_000),
        ("+10000-01-01", 253_402_300_800_000),
    ],
)
def test_times_that_spark_writes_of_far_years(tmp_path, time, ms):
    """Such as of a producer that gives microseconds."""
    path = lines(tmp_path / "records.jsonl", {"value": "x", "timestamp": time})
    assert [record.timestamp for record in read_files(path)] == [ms]


def test_hidden_files_are_left_out_and_compressed_files_are_an_error(tmp_path):
    folder = tmp_path / "_records.json"
    for name in ("_temporary/0/part-1.json", ".ipynb_checkpoints/part-0.json", "part-2.json.gz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{")
    with pytest.raises(ConfigurationError, match=r"part-2\.json\.gz: is compressed: decompress it"):
        list(read_files(str(folder)))
    (folder / "part-2.json.gz").unlink()
    (folder / "_day=1").mkdir()
    lines(folder / "_day=1" / "part-0.json", {"value": "x"})
    assert [record.value for record in read_files(str(folder))] == [b"x"]


def test_a_folder_of_json_lines_needs_no_suffix(tmp_path):
    """As Spark writes it; the names of its files count."""
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for part in range(2):
        lines(folder / f"part-{part}.json", {"value": f"x{part}"})
    assert [record.value for record in read_files(str(folder))] == [b"x0", b"x1"]
    (folder / "part-2.parquet").touch()
    with pytest.raises(ConfigurationError, match=r"files that are not: .*part-2\.parquet"):
        list(read_files(str(folder)))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = lines(tmp_path / "records.jsonl", {"value": "x"})

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ConfigurationError, match=f"--input {path}: cannot be read: Permission"):
        list(read_files(path))


def test_parquet(tmp_path):
    row = {"key": b"k", "value": None, "topic": "t", "partition": 1, "offset": 5, "timestamp": NOW,
           "headers": [{"key": "a", "value": b"1"}]}  # fmt: skip
    empty = dict.fromkeys(row)
    folder = tmp_path / "parquet" / "day=1"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row, empty], TYPES), folder / "a.parquet")
    (folder / "_SUCCESS").write_text("")
    assert list(read_files(str(tmp_path / "parquet"))) == [
        RecordRow("t", 1, 5, NOW_MS, None, b"k", None, (Header("a", b"1"),)),
        RecordRow(None, None, None, None, None, None, None, ()),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda table: table.drop_columns(["value", "offset"]), "no column value, offset"),
        (lambda table: table.set_column(0, "key", pa.array(["x"])), "column key is string, not bi"),
        (lambda table: None, "not Parquet"),
    ],
)
def test_files_that_are_not_records(tmp_path, make, message):
    table = make(pa.Table.from_pylist([dict.fromkeys(TYPES.names)], TYPES))
    path = tmp_path / "a.parquet"
    path.write_text("x") if table is None else pq.write_table(table, path)
    with pytest.raises(ConfigurationError, match=message):
        list(read_files(str(path)))


@pytest.mark.parametrize("timestamp", [-(2**62), 2**63 - 1, -1, NOW_MS])
def test_parquet_files_in_ms_have_any_timestamp(tmp_path, timestamp):
    schema = TYPES.set(5, pa.field("timestamp", pa.timestamp("ms", "UTC")))
    made = {name: [None] for name in TYPES.names} | {
        "timestamp": pa.array([timestamp], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    }
    pq.write_table(pa.table(made, schema), tmp_path / "a.parquet")
    (found,) = read_files(str(tmp_path / "a.parquet"))
    assert found.timestamp == timestamp


def test_files_that_do_not_exist(tmp_path):
    for name in ("none", "*.jsonl"):
        with pytest.raises(ConfigurationError, match="no files with this name"):
            read_files(str(tmp_path / name))


def test_parquet_without_pyarrow_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_text("x")
    with pytest.raises(ConfigurationError, match="pip install pyarrow; JSON lines"):
        list(read_files(str(tmp_path)))


def test_odd_parquet_files_are_errors_of_one_line(tmp_path):
    def wrong(table, kind=ConfigurationError):
        path = tmp_path / "odd.parquet"
        pq.write_table(table, path)
        with pytest.raises(kind) as error:
            list(read_files(str(path)))
        return str(error.value)

    base = pa.Table.from_pylist([{"topic": "t", "partition": 0, "offset": 0}], TYPES)
    twice = base.append_column("value", base.column("value"))
    assert "have column value twice" in wrong(twice)
    no_header = pa.Table.from_pylist([{"headers": [None]}], TYPES)
    assert "a record has a header that is null" in wrong(no_header, UnavailableError)
    raw = pa.array([b"\xff"], pa.binary()).cast(pa.string(), safe=False)
    invalid = base.set_column(2, "topic", raw)
    assert "damaged or encrypted" in wrong(invalid, UnavailableError)


def test_a_header_without_a_key_is_read(tmp_path):
    rows = pa.Table.from_pylist([{"headers": [{"key": None, "value": b"1"}]}], TYPES)
    pq.write_table(rows, tmp_path / "a.parquet")
    [found] = read_files(str(tmp_path / "a.parquet"))
    assert own_headers(found.headers) == ((None, b"1"),)


def test_the_name_of_a_folder_says_nothing(tmp_path):
    folder = tmp_path / "dead.jsonl"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([{"value": b"x"}], TYPES), folder / "a.parquet")
    assert [record.value for record in read_files(str(folder))] == [b"x"]


def test_a_compressed_file_is_found_before_the_first_record(tmp_path):
    lines(tmp_path / "a.jsonl", {"value": "x"})
    (tmp_path / "b.jsonl.gz").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"b\.jsonl\.gz: is compressed"):
        read_files(str(tmp_path))


def places(path, *places):
    rows = [dict(zip(("topic", "partition", "offset"), place, strict=True)) for place in places]
    pq.write_table(pa.Table.from_pylist(rows, TYPES), path)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([("t", 0, 1), ("t", 1, 5), ("t", 0, 2)], [("t", 1, 5), ("u", 0, 0)], True),
        ([("t", 0, 1)], [("t", 0, 0)], False),
        ([("t", 0, 1), ("t", 1, 0), ("t", 0, 0)], [], False),
        ([("t", 0, 1), (None, None, None), ("t", 0, None)], [("t", 0, 1)], True),
        ([("t", 0, 2), ("t", 0, None)], [("t", 0, 1)], False),
    ],
)
def test_whether_files_are_in_the_order_of_offsets(tmp_path, first, second, expected):
    places(tmp_path / "a.parquet", *first)
    places(tmp_path / "b.parquet", *second)
    assert are_in_order(listed(tmp_path)) is expected
    for name, some in {"a": first, "b": second}.items():
        (tmp_path / f"{name}.parquet").unlink()
        lines(tmp_path / f"{name}.jsonl", *(
            {"topic": topic, "partition": partition, "offset": offset}
            for topic, partition, offset in some
        ))  # fmt: skip
    assert are_in_order(listed(tmp_path)) is expected
