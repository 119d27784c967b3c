"""Folders of Parquet files: complete or not there, also after a crash between any two steps."""

import contextlib
import os
import pathlib

import pyarrow.parquet as pq
import pytest

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.policy import Header
from penstock.stored.files.files import read_files
from penstock.stored.rows.parquet_folders import ParquetFolder
from penstock.stored.rows.record_rows import RecordRow
from penstock.stored.rows.row_sinks import RowSinks

ROWS = [
    RecordRow("t", 1, 2**40, 1_763_719_200_123, 1, b"k", b"\xff", (Header("a", None),)),
    RecordRow(None, None, None, None, None, None, None, ()),
    RecordRow("t", 0, 0, -5_361_120_000_001, 0, b"", b"", (Header("a", b""), Header("a", b"1"))),
]


def write(folder, rows, *, appended=False):
    with ParquetFolder(str(folder)) as opened:
        for row in rows:
            opened.add(row)
        opened.complete(appended=appended)


def values(folder):
    return sorted(row.value or b"" for row in read_files(str(folder)))


def row(value):
    return ROWS[0]._replace(value=value)


def test_rows_come_back_as_they_were(tmp_path):
    folder = tmp_path / "a" / "b"
    write(folder, ROWS)
    assert list(read_files(str(folder))) == ROWS
    assert (folder / "_SUCCESS").exists()
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["a", "b"]
    write(folder, ROWS, appended=True)
    assert list(read_files(str(folder))) == ROWS * 2
    write(folder, [])
    assert list(read_files(str(folder))) == []


def test_a_folder_that_is_not_completed_does_not_change(tmp_path):
    folder = tmp_path / "d"
    write(folder, [row(b"old")])
    with pytest.raises(KeyboardInterrupt), ParquetFolder(f"{folder}/") as opened:
        opened.add(row(b"new"))
        raise KeyboardInterrupt
    assert values(folder) == [b"old"]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_crash_at_any_step_leaves_the_old_or_the_new_folder(tmp_path, monkeypatch):
    """Also with what a kill leaves behind, since nothing is cleaned up."""
    steps = []

    def killed_at(number):
        def step(*_arguments, **_more):
            steps.append(number)
            if len(steps) == number:
                raise KeyboardInterrupt

        return step

    for number in range(1, 13):
        folder = tmp_path / f"d{number:02}"
        write(folder, [row(b"old")])
        steps.clear()
        step = killed_at(number)
        with monkeypatch.context() as patch:
            renamed = pathlib.Path.rename
            patch.setattr(pathlib.Path, "rename", lambda *a, r=renamed, s=step: (s(), r(*a))[1])
            patch.setattr(os, "fsync", step)
            patch.setattr("shutil.rmtree", step)
            with contextlib.suppress(KeyboardInterrupt):
                write(folder, [row(b"new")])
        opened = ParquetFolder(str(folder))
        opened.recover()
        assert values(folder) in ([b"old"], [b"new"])
        write(folder, [row(b"later")])
        assert values(folder) == [b"later"]
        assert [path.name for path in tmp_path.glob(f"d{number:02}*")] == [folder.name]
    assert len(steps) < number  # the last round was not killed


def test_letters_are_parked_before_their_folder_is_replaced(tmp_path, monkeypatch):
    dead, parked = tmp_path / "dead", tmp_path / "dead.parked"
    write(dead, [row(b"1"), row(b"2")])
    sinks = RowSinks(
        lambda: None, {}, {"again": str(dead), "parked": str(parked)}, appended=("parked",)
    )
    completed = []
    complete = ParquetFolder.complete
    monkeypatch.setattr(
        ParquetFolder,
        "complete",
        lambda self, **how: (completed.append(how["appended"]), complete(self, **how)),
    )
    sinks.write([("again", row(b"1")), ("parked", row(b"2")), ("left out", row(b"3"))])
    assert completed == [True, False]
    assert (values(dead), values(parked)) == ([b"1"], [b"2"])


def test_folders_that_cannot_be_written(tmp_path, monkeypatch):
    def wrong(name):
        with pytest.raises(ConfigurationError) as error:
            ParquetFolder(str(name)).check_new()
        return str(error.value)

    assert "needs Spark: leave out --local" in wrong("hdfs://host/d")
    (tmp_path / "file").write_text("")
    assert "is a file; name a folder" in wrong(tmp_path / "file")
    assert "holds files already; name a new folder" in wrong(tmp_path)
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    assert "is a Delta table: leave out --local" in wrong(tmp_path / "delta")
    (tmp_path / "ice" / "metadata").mkdir(parents=True)
    (tmp_path / "ice" / "metadata" / "v1.metadata.json").write_text("")
    assert "is an Iceberg table: leave out --local" in wrong(tmp_path / "ice")
    with pytest.raises(ConfigurationError, match="cannot be written: Not a directory"):
        write(tmp_path / "file" / "d", [])


def test_a_time_that_parquet_cannot_represent(tmp_path):
    far = ROWS[0]._replace(timestamp=2**62)
    with pytest.raises(UnavailableError, match=r"t-1: the record at offset \d+ has a timestamp"):
        write(tmp_path / "d", [far])
    assert not list(tmp_path.iterdir())


def test_large_rows_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    write(tmp_path / "d", [row(os.urandom(100_000)) for _ in range(30)])
    monkeypatch.setattr("penstock.stored.files.files._BYTES", 400_000)
    sizes = []
    iterate = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile,
        "iter_batches",
        lambda self, size, **more: (sizes.append(size), iterate(self, size, **more))[1],
    )
    assert len(list(read_files(str(tmp_path / "d")))) == 30
    assert sizes == [3]
