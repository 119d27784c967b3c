"""Files of other file systems: the same files count, and their footers are read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.frames.files import check_files, list_files, read_any_columns, read_files
from penstock.spark.frames.hadoop_files import local_path
from tests.spark.jobs.record_folders import TYPES

NAMES = [
    "part-1.parquet",
    "batch=2/part-0.parquet",
    "batch=10/a/b/part [0].parquet",
    "p%41.parquet",
]
HIDDEN = ["_SUCCESS", ".x.crc", "_temporary/0/part-9.parquet", "batch=2/_x/y.parquet"]


@pytest.fixture
def folder(tmp_path):
    """A folder with a record in each file, of which some are hidden."""
    for number, name in enumerate([*NAMES, *HIDDEN]):
        file = tmp_path / "records" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        row = {"value": name.encode(), "topic": "t", "partition": 0, "offset": number}
        table = pa.Table.from_pylist([row], pa.schema(TYPES.items()))
        pq.write_table(table.drop_columns(["headers"]) if number % 2 else table, file)
    return tmp_path / "records"


def names(files, folder):
    return {file.url.partition(f"/{folder.name}/")[2] for file in files.files}


def test_all_files_are_found_that_are_not_hidden(spark, folder, elsewhere):
    for given, expected in {
        elsewhere(folder): set(NAMES),
        f"{elsewhere(folder)}/batch=*": {name for name in NAMES if name.startswith("batch")},
        f"{elsewhere(folder)}/*": set(NAMES),
        f"{elsewhere(folder)}/p%41.parquet": {"p%41.parquet"},
    }.items():
        files = list_files(spark, given)
        assert names(files, folder) == expected
        assert check_files(spark, files) == len(expected)
        found = read_files(spark, files).select("value", "headers", "offset").collect()
        assert {bytes(row.value).decode() for row in found} == expected
        assert {row.headers for row in found} == {None}


def test_names_of_folders_are_columns_below_the_path(spark, tmp_path, elsewhere):
    orders = tmp_path / "orders"
    for day in (1, 2):
        (orders / f"day={day}" / "hour=0").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), orders / f"day={day}" / "hour=0" / "p.parquet")
    for root in (str(orders), elsewhere(orders)):
        for below, columns, count in (
            ("", ["id", "day", "hour"], 2),
            ("/day=*", ["id", "day", "hour"], 2),
            ("/day=[1]/*/*.parquet", ["id", "day", "hour"], 1),
            ("/day=1", ["id", "hour"], 1),
            ("/day=1/hour=*", ["id", "hour"], 1),
            ("/day=1/hour=0/p.parquet", ["id"], 1),
        ):
            frame = read_any_columns(spark, f"{root}{below}")
            assert (frame.columns, frame.count()) == (columns, count), (root, below)


def test_a_file_that_is_not_parquet_is_named(spark, folder, elsewhere):
    (folder / "batch=2" / "odd.parquet").write_text("x" * 100)
    with pytest.raises(
        ConfigurationError, match=r"--input viewfs:.*batch=2/odd\.parquet: the files"
    ):
        check_files(spark, list_files(spark, elsewhere(folder)))


def test_a_missing_file_is_an_error(spark, tmp_path, elsewhere):
    with pytest.raises(ConfigurationError, match="there are no files with this name"):
        list_files(spark, elsewhere(tmp_path / "none"))
    with pytest.raises(
        ConfigurationError, match=r"cannot be read: .*UnsupportedFileSystem|No File"
    ):
        list_files(spark, "odd://host/records")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("/a b", "/a b"), ("a/*.parquet", "a/*.parquet"), ("file:/a", "/a"), ("file:///a:b", "/a:b"),
     ("hdfs://host/a", None), ("s3a://bucket/a", None), ("viewfs:/a", None)],
)  # fmt: skip
def test_which_paths_are_of_this_machine(spark, given, expected):
    found = local_path(spark, given)
    assert (found if found is None else str(found)) == expected


@pytest.mark.parametrize("name", ["a:b.parquet", "a:b/[1].parquet"])
def test_names_that_spark_does_not_read_are_refused(spark, folder, name):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    (folder / NAMES[0]).rename(file)
    with pytest.raises(ConfigurationError, match="Spark does not read a file with a colon in its"):
        check_files(spark, list_files(spark, str(folder)))


def test_timestamps_that_spark_does_not_read_are_refused(spark, folder):
    table = pq.ParquetFile(folder / NAMES[0]).read()
    at = table.schema.get_field_index("timestamp")
    nanos = table["timestamp"].cast(pa.timestamp("ns", "UTC"))
    table = table.set_column(at, "timestamp", nanos)
    pq.write_table(table, folder / NAMES[0], use_deprecated_int96_timestamps=True)
    assert check_files(spark, list_files(spark, str(folder))) == len(NAMES)
    pq.write_table(table, folder / NAMES[0])
    with pytest.raises(
        ConfigurationError, match=r"column timestamp is timestamp\[ns, tz=UTC\], whi"
    ):
        check_files(spark, list_files(spark, str(folder)))
