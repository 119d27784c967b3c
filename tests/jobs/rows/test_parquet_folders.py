"""Folders of Parquet files: complete or not there, also after a kill between any two steps."""

import contextlib
import os
import pathlib
import shutil

import pytest

from penstock.configuration import ConfigurationError
from penstock.errors import UnavailableError
from penstock.jobs.files.reading import check_listed, read_files, read_listed
from penstock.jobs.rows import parquet_folders
from penstock.jobs.rows.count_proof import CountProof
from penstock.jobs.rows.letter_folder import LetterFolder
from penstock.jobs.rows.parquet_folders import ParquetFolder
from penstock.jobs.rows.records import RecordRow
from penstock.jobs.rows.sinks import RowSinks
from penstock.policy import Header

ROWS = [
    RecordRow("t", 1, 2**40, 1_763_719_200_123, 1, b"k", b"\xff", (Header("a", None),)),
    RecordRow(None, None, None, None, None, None, None, ()),
    RecordRow("t", 0, 0, -5_361_120_000_001, 0, b"", b"", (Header("a", b""), Header("a", b"1"))),
]


def sinks(job="job", *, are_new=False, replaced=None, **folders):
    names = {sink: str(folder) for sink, folder in folders.items()}
    return RowSinks(lambda: None, {}, names, job=job, are_new=are_new, replaced=replaced)


def write(folder, rows, **how):
    with sinks(out=folder, **how) as opened:
        opened.write([("out", row) for row in rows])


def row(value):
    return ROWS[0]._replace(value=value)


def values(folder):
    if not folder.exists() or not any(folder.glob("**/*.parquet")):
        return []
    return sorted(row.value or b"" for row in read_files(str(folder)))


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".parquet")


def test_rows_come_back_as_they_were(tmp_path):
    folder = tmp_path / "a" / "b"
    write(folder, ROWS, are_new=True)
    assert list(read_files(str(folder))) == ROWS
    assert names(folder) == ["_SUCCESS"]
    write(folder, ROWS)
    assert list(read_files(str(folder))) == ROWS * 2
    write(tmp_path / "empty", [], are_new=True)
    assert list(read_files(str(tmp_path / "empty"))) == []


@pytest.mark.parametrize("timestamp", [2**62, -(2**62), 2**63 - 1, -(2**63), -1, 0])
def test_a_row_with_any_timestamp_comes_back(tmp_path, timestamp):
    rows = [found._replace(timestamp=timestamp) for found in ROWS]
    write(tmp_path, rows)
    assert list(read_files(str(tmp_path))) == rows


@pytest.mark.parametrize("exists", [True, False])
def test_a_run_that_fails_leaves_nothing(tmp_path, exists):
    folder = tmp_path / "d"
    if exists:
        write(folder, [row(b"old")])
    with pytest.raises(KeyboardInterrupt), sinks(out=folder) as opened:
        opened.write(_interrupted())
    assert values(folder) == [b"old"] * exists
    assert [path.name for path in tmp_path.iterdir()] == ["d"] * exists


def _interrupted():
    yield "out", row(b"new")
    raise KeyboardInterrupt


class Killed(BaseException):
    """The process ends."""


def redrive(dead, back):
    """Return letters with an even number; the others wait, or are parked."""
    letters = LetterFolder(str(dead))
    with sinks(
        str(letters.path), again=dead, back=back, parked=f"{dead}.parked", replaced=letters
    ) as opened:
        files = letters.files()
        places = [*["back", "again"] * 3, "back", "parked"]
        opened.write(
            [(places[int(letter.value)], letter) for letter in read_listed(files)],
            CountProof(str(dead), check_listed(files)),
        )


def test_a_kill_at_any_step_of_a_redrive_loses_and_doubles_nothing(tmp_path, monkeypatch):
    """The next run does the rest."""
    steps, number = [], 0
    while len(steps) >= number:  # until no step is left
        number += 1
        dead, back = tmp_path / f"dead-{number}", tmp_path / f"back-{number}"
        write(dead / "batch=1", [row(b"%d" % letter) for letter in range(5)])
        write(dead, [row(b"%d" % letter) for letter in range(5, 8)])
        steps = _killed(monkeypatch, number, dead, back)
        redrive(dead, back)
        assert values(back) == [b"0", b"2", b"4", b"6"]
        assert values(dead) == [b"1", b"3", b"5"]
        assert values(tmp_path / f"dead-{number}.parked") == [b"7"]
        assert (names(dead), names(back)) == (["_SUCCESS", "batch=1"], ["_SUCCESS"])
    assert number > 15


def _killed(monkeypatch, number, dead, back):
    steps = []

    def killed(of):
        def step(*arguments, **more):
            steps.append(of)
            if len(steps) >= number:
                raise Killed
            return of(*arguments, **more)

        return step

    with monkeypatch.context() as patch:
        for name in ("rename", "unlink", "rmdir", "mkdir", "touch", "write_text"):
            patch.setattr(pathlib.Path, name, killed(getattr(pathlib.Path, name)))
        patch.setattr(os, "fsync", killed(os.fsync))
        patch.setattr(shutil, "rmtree", killed(shutil.rmtree))
        with contextlib.suppress(Killed):
            redrive(dead, back)
    return steps


def test_files_that_arrive_during_a_redrive_stay(tmp_path):
    dead = tmp_path / "dead"
    write(dead, [row(b"old")])
    letters = LetterFolder(str(dead))
    (dead / ".hidden").write_text("mine")
    with sinks("redrive", again=dead, back=tmp_path / "back", replaced=letters) as opened:
        files = letters.files()
        rows = list(read_listed(files))
        shutil.copytree(dead, dead / "batch=2", ignore=shutil.ignore_patterns(".*", "_*"))
        opened.write([("back", found) for found in rows], CountProof("", 1))
    assert values(tmp_path / "back") == [b"old"]
    assert values(dead) == [b"old"]
    assert names(dead) == [".hidden", "_SUCCESS", "batch=2"]


@pytest.mark.parametrize("left_out", [0, 2])
def test_nothing_is_removed_that_was_not_written(tmp_path, left_out):
    """Whatever the reason: a policy's, a reader's, or another run's."""
    dead = tmp_path / "dead"
    write(dead, [row(b"1"), row(b"2")])
    letters = LetterFolder(str(dead))
    with (
        pytest.raises(UnavailableError) as error,
        sinks("redrive", again=dead, back=tmp_path / "back", replaced=letters) as opened,
    ):
        proof = CountProof("dead", check_listed(letters.files()), lambda: left_out)
        opened.write([("back", row(b"1"))], proof)
    assert str(error.value) == (
        f"dead: the files have 2 records, and {1 + left_out} were read: no file is removed, and no "
        "folder is changed; run the command again"
    )
    assert (values(dead), values(tmp_path / "back")) == ([b"1", b"2"], [])
    assert names(dead) == ["_SUCCESS"]


def test_a_file_that_is_replaced_during_a_redrive_stays(tmp_path):
    dead = tmp_path / "dead"
    write(dead, [row(b"old")])
    letters = LetterFolder(str(dead))
    with (
        pytest.raises(UnavailableError, match="was changed while it was read: no file is removed"),
        sinks("redrive", again=dead, back=tmp_path / "back", replaced=letters) as opened,
    ):
        [file] = letters.files().files
        rows = list(read_listed(letters.files()))
        write(tmp_path / "new", [row(b"new")])
        next((tmp_path / "new").glob("*.parquet")).rename(file)
        opened.write([("back", found) for found in rows], CountProof("", 1))
    assert (values(dead), values(tmp_path / "back")) == ([b"new"], [])


def test_a_file_that_arrives_after_a_kill_stays(tmp_path, monkeypatch):
    """Under the name of a file that the next run is to remove."""
    dead = tmp_path / "dead"
    write(dead, [row(b"2"), row(b"4")])
    [file] = dead.glob("*.parquet")

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(pathlib.Path, "unlink", killed)
        redrive(dead, tmp_path / "back")
    file.unlink()
    write(tmp_path / "new", [row(b"1")])
    next((tmp_path / "new").glob("*.parquet")).rename(file)
    redrive(dead, tmp_path / "back")
    assert values(tmp_path / "back") == [b"2", b"4"]
    assert values(dead) == [b"1"]


def test_a_file_with_several_names_is_read_once_and_removed(tmp_path):
    dead = tmp_path / "dead"
    write(dead, [row(b"2")])
    write(tmp_path / "elsewhere", [row(b"4")])
    [file] = dead.glob("*.parquet")
    (dead / "again.parquet").symlink_to(file)
    os.link(file, dead / "hard.parquet")
    (dead / "linked").symlink_to(tmp_path / "elsewhere")
    redrive(dead, tmp_path / "back")
    redrive(dead, tmp_path / "back")
    assert (values(dead), values(tmp_path / "back")) == ([], [b"2", b"4"])
    assert values(tmp_path / "elsewhere") == []


def test_a_folder_that_is_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    write(real, [row(b"2")])
    link.symlink_to(real)
    redrive(link, tmp_path / "back")
    redrive(link, tmp_path / "back")
    assert (values(real), values(tmp_path / "back")) == ([], [b"2"])
    assert link.is_symlink()


def test_one_run_writes_at_a_time(tmp_path):
    write(tmp_path / "d", [])
    with sinks(out=tmp_path / "d"), pytest.raises(UnavailableError, match="another run writes"):
        write(tmp_path / "d", [])
    with sinks(out=tmp_path / "d"):
        pass


def test_a_file_system_that_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    write(tmp_path / "dead", [row(b"%d" % letter) for letter in range(8)])
    with monkeypatch.context() as patch:
        patch.setattr(parquet_folders, "sync", full)
        with pytest.raises(UnavailableError, match="cannot be written: No space left on device"):
            redrive(tmp_path / "dead", tmp_path / "back")
    assert [path.name for path in tmp_path.iterdir()] == ["dead"]
    assert len(values(tmp_path / "dead")) == 8


def test_folders_that_cannot_be_written(tmp_path):
    def wrong(name):
        with pytest.raises(ConfigurationError) as error:
            ParquetFolder(str(name), job="", is_new=True)
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
    with pytest.raises(ConfigurationError, match="there is no such folder"):
        LetterFolder(str(tmp_path / "dead[1]"))
    with pytest.raises(ConfigurationError, match="the folder has no files"):
        LetterFolder(str(tmp_path / "delta")).files()
