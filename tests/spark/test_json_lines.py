"""JSON lines behind many others: Spark and `--local` read the same, and name a wrong line."""

import json

import pytest

from penstock.spark.execution.failures import NOT_BASE64, NOT_TIME, reason_of
from penstock.spark.sources import read_files
from tests.spark.conftest import BOTH, NO_BAD, POLICIES

pytestmark = pytest.mark.slow

BEFORE = 1200


def line(offset=0, **fields):
    return json.dumps({"value": "good", "topic": "t", "partition": 0, "offset": offset, **fields})


@pytest.fixture
def file(tmp_path):
    """A configuration file whose cluster is not contacted."""
    (tmp_path / "policies.py").write_text(POLICIES)
    keys = {"upstream.bootstrap.servers": "127.0.0.1:9", **NO_BAD}
    (tmp_path / "plan.properties").write_text("".join(f"{k}={v}\n" for k, v in keys.items()))
    return tmp_path / "plan.properties"


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


@BOTH
def test_contents_that_look_like_base64_are_reported(command, file, tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text(line(value="good") + "\n" + line(value="nice"))
    done = command("audit", file, "--input", path)
    assert done.code == 0, done
    assert f"warning: --input {path}: keys, values and headers are decoded from base64" in done.err
    path.write_text(line(value="good") + "\n" + line(value="not that"))
    assert "warning" not in command("audit", file, "--input", path).err


def test_spark_reads_timestamps_as_other_commands_do(spark, tmp_path):
    """Also where no line was checked before, such as on HDFS."""
    path = tmp_path / "records.jsonl"
    times = [
        "2026-01-31T12:00:00Z",
        1_769_860_800_000,
        "1769860800000",
        "2026-01-31 12:00:00",
        None,
    ]
    path.write_text("\n".join(line(n, timestamp=time) for n, time in enumerate(times)))
    found = read_files(spark, str(path)).orderBy("offset").selectExpr("unix_millis(timestamp)")
    assert [row[0] for row in found.collect()] == [1_769_860_800_000] * 4 + [None]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"timestamp": 1_769_860_800}, NOT_TIME),
        ({"timestamp": "noon"}, NOT_TIME),
        ({"value": "no base64!"}, NOT_BASE64),
    ],
)
def test_spark_ends_at_a_wrong_line_that_was_not_checked(spark, tmp_path, wrong, message):
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f"{line(n)}\n" for n in range(BEFORE)) + line(**wrong))
    with pytest.raises(Exception, match=message) as raised:
        read_files(spark, str(path)).write.format("noop").mode("overwrite").save()
    text, code = reason_of(raised.value)
    assert (code, message in text) == (2, True)
