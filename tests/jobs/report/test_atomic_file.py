"""Files that are written completely or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.jobs.report.atomic_file import write_file


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "report.json"
    write_file(path, "one\n")
    write_file(path, "zw\u00f6lf\n")
    assert path.read_text(encoding="utf-8") == "zw\u00f6lf\n"
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_a_failed_write_leaves_no_file(tmp_path):
    (tmp_path / "report.json").mkdir()
    with pytest.raises(OSError):
        write_file(tmp_path / "report.json", "text")
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "other", "\ud800")
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_several_writers_leave_one_complete_file(tmp_path):
    path = tmp_path / "report.json"
    texts = [str(n) * 50_000 for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda text: write_file(path, text), texts * 5):
            assert path.read_text() in texts
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
