"""Files that Spark is to read: checked here, and named so that nothing in a name is a glob."""

import datetime as dt
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.files.json_lines import WrongLineError
from penstock.jobs.files.listing import ListedFiles
from penstock.spark.frames.files import _is_read_here, _spark_path, check_files

pytestmark = pytest.mark.unit
LINE = '{"value": "v", "topic": "t", "partition": 0, "offset": %d}\n'


def listed(*files):
    return ListedFiles.of("given", files, "--input ")


def test_lines_of_this_machine_are_checked_without_spark(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(LINE % 1 + "\n" + LINE % 2)
    second.write_text(LINE % 3)
    assert check_files(None, listed(first, second)) == 3
    second.write_text(LINE % 3 + "{")
    with pytest.raises(WrongLineError, match=f"^--input {second}, line 2: is not JSON$"):
        check_files(None, listed(first, second))


def test_compressed_lines_are_for_spark(tmp_path):
    plain, compressed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_text(LINE % 1)
    compressed.write_bytes(gzip.compress(plain.read_bytes()))
    assert _is_read_here(plain)
    assert not _is_read_here(compressed)


def parquet(file, unit, **options):
    moment = pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp(unit))
    columns = {
        "key": pa.array([None], pa.binary()), "value": pa.array([b"v"], pa.binary()),
        "topic": ["t"], "partition": pa.array([0], pa.int32()), "offset": [1], "timestamp": moment,
    }  # fmt: skip
    pq.write_table(pa.table(columns), file, **options)
    return file


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_footers_are_checked_without_spark(tmp_path, unit):
    assert check_files(None, listed(parquet(tmp_path / "a.parquet", unit))) == 1


def test_spark_does_not_read_nanoseconds(tmp_path):
    file = parquet(tmp_path / "a.parquet", "ns")
    with pytest.raises(ConfigurationError, match=f"^--input {file}: column timestamp is .*ns"):
        check_files(None, listed(file))
    old = parquet(tmp_path / "b.parquet", "ns", use_deprecated_int96_timestamps=True)
    assert check_files(None, listed(old)) == 1


def test_nothing_in_a_name_is_a_glob(tmp_path):
    file = tmp_path / "a[1]{b}*?\\.jsonl"
    assert _spark_path(file, "") == f"file:{tmp_path}/a\\[1\\]\\{{b\\}}\\*\\?\\\\.jsonl"
    assert _spark_path(tmp_path / "a b.jsonl", "") == f"file:{tmp_path}/a b.jsonl"


@pytest.mark.parametrize("name", ["a:b.jsonl", "a:b/c[1].jsonl"])
def test_a_colon_in_a_path_is_an_error_where_spark_would_misread_it(tmp_path, name):
    with pytest.raises(ConfigurationError, match="Spark does not read a file with a colon"):
        _spark_path(tmp_path / name, "--input ")


def test_a_colon_in_a_folder_alone_is_read(tmp_path):
    assert _spark_path(tmp_path / "a:b" / "c.jsonl", "") == f"file:{tmp_path}/a:b/c.jsonl"


def test_a_name_that_is_not_utf_8_is_an_error_that_can_be_printed(tmp_path):
    with pytest.raises(ConfigurationError, match="whose name is not UTF-8") as raised:
        _spark_path(tmp_path / "a\udcff.jsonl", "--input ")
    assert str(raised.value).isascii()
