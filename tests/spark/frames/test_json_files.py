"""JSON lines behind many others: Spark and `--local` read the same, and name a wrong line."""

import base64
import datetime as dt
import gzip
import json
import re
import uuid

import pyarrow as pa
import pytest

from penstock.jobs.files.json_lines import WrongLineError
from penstock.spark.frames.files import check_files, list_files, read_files
from penstock.spark.frames.json_files import records
from penstock.spark.frames.kafka_columns import COLUMNS
from penstock.spark.frames.record_order import PLACE, without_place
from tests.gateways import without_waiting
from tests.spark.conftest import BOTH, NO_BAD, POLICIES

BEFORE = 1200


def line(offset=0, **fields):
    return json.dumps({"value": "good", "topic": "t", "partition": 0, "offset": offset, **fields})


@pytest.fixture
def file(tmp_path):
    """A configuration file whose cluster is not contacted."""
    # Each file has its own module, because this process keeps imported modules.
    module = f"policies_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(POLICIES)
    keys = {"upstream.bootstrap.servers": "127.0.0.1:9", **NO_BAD}
    lines = (f"{k}={v}\n".replace("policies.", f"{module}.") for k, v in keys.items())
    (tmp_path / "plan.properties").write_text("".join(lines))
    return tmp_path / "plan.properties"


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('{"value": "good', "is not JSON"),
        (f"[{line()}]", "must be an object, not an array"),
        (line(value={"id": 1}), "value must be a string or null, not an object"),
        (line(key=5), "key must be a string or null, not a number"),
        (line(partition=2**40), "partition must be at most 2147483647"),
        (line(offset=2**70), "offset must be at most 9223372036854775807"),
        (line(value="no base64!"), "value must be base64, as in the lines before"),
        (line(timestamp="20260131T120000Z"), "timestamp must be an ISO time such as 2026-01-31T12"),
        (line(timestamp="noon"), "timestamp must be an ISO time such as 2026-01-31T12"),
    ],
)
def test_a_wrong_line_behind_many(command, file, tmp_path, wrong, message):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{line(n)}\n" for n in range(BEFORE)) + wrong + "\n")
    done = command("audit", file, "--input", path)
    assert done.code == 2, done
    assert f"--input {path}, line {BEFORE + 1}: {message}" in done.err


@pytest.mark.slow
@BOTH
def test_contents_that_look_like_base64_are_reported(command, file, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(line(value="good") + "\n" + line(value="nice"))
    done = command("audit", file, "--input", path)
    assert done.code == 0, done
    assert f"warning: --input {path}: keys, values and headers are decoded from base64" in done.err
    path.write_text(line(value="good") + "\n" + line(value="not that"))
    assert "warning" not in command("audit", file, "--input", path).err


WRONG = [
    ('{"value": "good', "is not JSON"),
    (f"[{line()},{line()}]", "must be an object, not an array"),
    ("7", "must be an object, not a number"),
    (line(value={"id": 1}), "value must be a string or null, not an object"),
    (line(key=5), "key must be a string or null, not a number"),
    (line(partition=2**40), "partition must be at most 2147483647"),
    (line(value="no base64!"), "value must be base64, as in the lines before"),
    (line(timestamp=1_769_860_800), "timestamp must be an ISO time"),
    (line(timestampType="0"), "timestampType must be an integer or null, not a string"),
    (line().replace("offset", "ofset"), "a record has no field ofset; did you mean offset?"),
    (line().replace("value", "payload"), "has no value, but fields that are none of key, value"),
]


def batch(*texts, file="s3a://bucket/more%20records.jsonl", start=0):
    """Make what Spark gives a task of its lines."""
    lines = [text if isinstance(text, bytes) else text.encode() for text in texts]
    columns = {"line": lines, "file": [file] * len(lines), "block": [start] * len(lines)}
    return pa.RecordBatch.from_pydict(columns)


def rows(*batches, is_base64=False):
    found = [row for read in records(batches, is_base64=is_base64) for row in read.to_pylist()]
    return [{name: row[name] for name in row if name != PLACE} for row in found]


def places(*batches):
    found = [row for read in records(batches, is_base64=False) for row in read.to_pylist()]
    return [tuple(row[PLACE].values()) for row in found]


@pytest.mark.unit
@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_wrong_line_is_named_by_its_file_and_number(wrong, message):
    given = batch(line(), ""), batch(line(), wrong)
    expected = f"^s3a://bucket/more records.jsonl, line 4: {re.escape(message)}"
    with pytest.raises(WrongLineError, match=expected):
        rows(*given, is_base64=True)


@pytest.mark.unit
def test_a_wrong_line_in_a_later_part_of_a_file():
    parts = batch(line(), file="file:/b", start=0), batch(line(), "{", file="file:/b", start=512)
    with pytest.raises(WrongLineError, match=r"^file:/b, line 2 after byte 512: is not JSON"):
        rows(*parts)


@pytest.mark.unit
def test_the_place_of_a_line_is_that_in_its_file():
    parts = batch(line(), "", line(), file="f", start=0), batch(line(), file="f", start=512)
    assert places(*parts, batch(line(), file="f", start=512)) == [
        ("f", 0, 1), ("f", 0, 3), ("f", 512, 1), ("f", 512, 2)
    ]  # fmt: skip


@pytest.mark.unit
def test_the_rows_of_lines():
    header = {"key": "\ud800", "value": None}
    given = line(2**40, key="a!", timestamp=-5, timestampType=1, headers=[header], day="x")
    first, second = rows(batch("", given + "\r", '{"value": null, "verdict": {}}'), batch())
    assert first == {
        "key": b"a!", "value": b"good", "topic": "t", "partition": 0, "offset": 2**40,
        "timestamp": dt.datetime(1969, 12, 31, 23, 59, 59, 995_000, dt.UTC), "timestampType": 1,
        "headers": [{"key": "?", "value": None}],
    }  # fmt: skip
    assert second == {**dict.fromkeys(first), "headers": None}
    (row,) = rows(batch(line(key="YQ==")), is_base64=True)
    assert (row["key"], row["value"]) == (b"a", base64.b64decode("good"))


@pytest.mark.slow
def test_spark_reads_lines_of_other_file_systems_as_other_commands_do(spark, tmp_path):
    path = tmp_path / "more records.json"
    path.mkdir()
    times = [
        "2026-01-31T12:00:00Z",
        1_769_860_800_000,
        "1769860800000",
        "2026-01-31 12:00:00",
        None,
        2**56,
    ]
    text = "\n".join(line(n, value="é", timestamp=time) for n, time in enumerate(times))
    (path / "part-0.json.gz").write_bytes(gzip.compress(text.encode()))
    files = list_files(spark, f"file://{path}")
    assert check_files(spark, files) == len(times)
    found = without_place(read_files(spark, files)).orderBy("offset")
    assert found.dtypes == list(COLUMNS.items())
    read = found.selectExpr("unix_millis(timestamp) ms", "value").collect()
    assert [row.ms for row in read] == [1_769_860_800_000] * 4 + [None, None]
    assert {bytes(row.value) for row in read} == {"é".encode()}


@pytest.mark.slow
def test_a_command_names_a_wrong_line_of_another_file_system(
    spark, command, file, tmp_path, elsewhere
):
    path = tmp_path / "records.jsonl"
    text = line(value="no base64!")
    path.write_text(f"{text}\n" * BEFORE + f"[{text}]\n")
    spark.conf.set("spark.sql.files.maxPartitionBytes", 50_000)
    try:
        done = command("audit", file, "--input", elsewhere(path))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert done.code == 2, done
    assert "records.jsonl, line " in done.err
    assert " after byte 50000: must be an object, not an array" in done.err
    assert len(without_waiting(done.err).splitlines()) == 1
