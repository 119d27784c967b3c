"""The lines of a trail in files."""

import bz2
import gzip
import io
import lzma
from contextlib import ExitStack

import pytest

from penstock.jobs.audit_trail.counts import LINE_MAX_BYTES
from penstock.jobs.audit_trail.files import DAMAGED, files_of, lines_of, open_all, rotated


def test_a_file_and_its_rotated_files(tmp_path):
    path = tmp_path / "audit.jsonl"
    names = ("audit.jsonl", "audit.jsonl.1", "audit.jsonl-20260131.gz", "other.jsonl", "audit.js")
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "audit.jsonl.d").mkdir()
    (tmp_path / "audit.jsonl.link").symlink_to(path)
    found = [entry.name for entry in rotated(path)]
    assert found == ["audit.jsonl", "audit.jsonl-20260131.gz", "audit.jsonl.1"]
    assert rotated(tmp_path / "not-there") == []


def test_input_is_a_file_a_glob_or_a_folder(tmp_path):
    for name in ("a.1", "a.2", "b", ".hidden"):
        (tmp_path / name).touch()
    assert files_of(f"{tmp_path}/a.1") == [tmp_path / "a.1"]
    assert files_of(f"{tmp_path}/a.*") == [tmp_path / "a.1", tmp_path / "a.2"]
    assert files_of(str(tmp_path)) == [tmp_path / name for name in ("a.1", "a.2", "b")]
    with pytest.raises(FileNotFoundError):
        files_of(f"{tmp_path}/c*")


@pytest.mark.parametrize(
    ("suffix", "write"), [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)]
)
def test_files_are_read_as_their_names_say(tmp_path, suffix, write):
    path = tmp_path / f"audit.jsonl{suffix}"
    with write(path, "wb") as file:
        file.write(b"a\nb\n")
    with ExitStack() as opened:
        ((found, file),) = open_all(lambda: [path], opened)
        assert found == path
        assert list(lines_of(file)) == [b"a", b"b"]
    assert file.closed


def test_a_damaged_file_raises_a_declared_error(tmp_path):
    path = tmp_path / "audit.jsonl.gz"
    path.write_bytes(gzip.compress(b"a\n" * 10_000)[:-20])
    with ExitStack() as opened, pytest.raises(DAMAGED):
        ((_, file),) = open_all(lambda: [path], opened)
        list(lines_of(file))


def test_a_line_that_is_being_written_is_left_out():
    assert list(lines_of(io.BytesIO(b'a\n\n  \nb\n{"time":'))) == [b"a", b"b"]


def test_a_line_without_an_end_takes_no_memory():
    long = b"x" * (5 * LINE_MAX_BYTES)
    first, second = lines_of(io.BytesIO(long + b"\nb\n"))
    assert len(first) == LINE_MAX_BYTES + 1
    assert second == b"b"


def test_a_rotation_meanwhile_loses_nothing(tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"new\n")
    looks = []

    def find():
        looks.append(None)
        return [tmp_path / "renamed", path] if len(looks) == 1 else rotated(path)

    with ExitStack() as opened:
        files = open_all(find, opened)
        path.rename(tmp_path / "audit.jsonl.1")
        path.write_bytes(b"newer\n")
        assert [list(lines_of(file)) for _, file in files] == [[b"new"]]
    assert len(looks) == 2
