"""Which files a path means: every file, wherever it is and whatever its name."""

import os
from pathlib import Path, PurePath

import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.files.listing import ListedFiles, distinct, find_files, is_json, list_folder

ODD = ["a[1].parquet", "b*c.parquet", "d e.parquet", "p%41.parquet", "q?,x.parquet", "x=1.parquet",
       "{a,b}.parquet", "back\\slash.parquet", "co:lon.parquet", "new\nline.parquet"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A folder with files at all levels, of which some are hidden."""
    for name in ("part-1.parquet", "batch=2/part-0.parquet", "batch=10/a/b/part-0.parquet",
                 "_day=1/part-0.parquet", "_SUCCESS", ".part-1.parquet.crc", "_temporary/0/x.parquet",
                 ".penstock-1/x.parquet", "batch=2/_x/y.parquet", "batch=2/.y.parquet"):  # fmt: skip
        file = tmp_path / "records" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path / "records"


def below(folder, files):
    return [str(file.relative_to(folder)) for file in files]


def test_all_files_count_that_are_not_hidden(folder):
    expected = ["_day=1/part-0.parquet", "batch=10/a/b/part-0.parquet", "batch=2/part-0.parquet",
                "part-1.parquet"]  # fmt: skip
    assert below(folder, list_folder(folder)) == expected
    assert below(folder, find_files(str(folder))) == expected
    assert below(folder, find_files(f"{folder}/batch=*")) == expected[1:3]


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_exists_is_no_glob(tmp_path, name):
    (tmp_path / name).touch()
    (tmp_path / "a1.parquet").touch()
    assert find_files(str(tmp_path / name)) == [tmp_path / name]


def test_a_glob_reads_what_it_matches_once(folder):
    found = find_files(f"{folder}*/*")
    assert len(found) == len(set(found)) == 4
    assert find_files(f"{folder}/none*") == []


def test_links_are_followed_and_each_file_is_read_once(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "part-9.parquet").touch()
    (folder / "linked").symlink_to(elsewhere)
    (folder / "loop").symlink_to(folder)
    (folder / "batch=2" / "up").symlink_to("..")
    (folder / "twice.parquet").symlink_to(folder / "part-1.parquet")
    os.link(folder / "part-1.parquet", folder / "z.parquet")
    names = below(folder, list_folder(folder))
    assert {"twice.parquet", "z.parquet", "part-1.parquet", "linked/part-9.parquet"} <= set(names)
    found = distinct(list_folder(folder))
    assert len(found) == len({file.stat().st_ino for file in found}) == 5
    assert find_files(str(folder)) == found


def test_a_name_that_is_no_file_is_an_error(folder):
    (folder / "gone.parquet").symlink_to(folder / "none")
    with pytest.raises(ConfigurationError) as error:
        find_files(str(folder), "--from path:")
    assert str(error.value) == (
        f"--from path:{folder}: {folder}/gone.parquet is neither a file nor a folder"
    )
    (folder / "gone.parquet").unlink()
    os.mkfifo(folder / "pipe.parquet")
    with pytest.raises(ConfigurationError, match=r"pipe\.parquet is neither a file nor a folder"):
        find_files(str(folder))


def test_a_folder_that_may_not_be_read_is_an_error(folder, monkeypatch):
    def denied(path, *_):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(ConfigurationError, match="cannot be read: Permission denied"):
        find_files(str(folder))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.json", True), ("a.JSONL", True), ("a.ndjson.gz", True), ("a", False), ("a.gz", False),
     ("json", False)],
)  # fmt: skip
def test_names_of_json_lines(name, expected):
    assert is_json(PurePath(name)) == expected


def test_files_are_of_one_kind():
    with pytest.raises(
        ConfigurationError, match=r"x: has JSON lines, and .* not: b\.parquet; name"
    ):
        ListedFiles.of("x", [Path("a.json"), Path("b.parquet")])
    with pytest.raises(ConfigurationError, match="--input x: there are no files with this name"):
        ListedFiles.of("x", [])
