"""Kept runs: by topics and plan, a bounded number, without touching other files."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.jobs.report import history
from penstock.jobs.report.history import add_run
from tests.jobs.report.samples import records, report_of


def report(refused=1, source="t", fingerprint="f"):
    made = report_of(records(count=9), records(count=refused, message="bad"), source=source)
    return made.model_copy(
        update={"about": made.about.model_copy(update={"fingerprint": fingerprint})}
    )


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_runs_are_kept_in_the_order_of_time(tmp_path):
    for refused in (1, 2, 3):
        series = add_run(tmp_path / "new" / "folder", report(refused))
    assert [run.refused for run in series.runs] == [1, 2, 3]
    assert series.runs[0].share == pytest.approx(0.1)
    assert series.unreadable == []
    assert len(files(tmp_path)) == 3


def test_each_plan_and_each_source_has_its_own_series(tmp_path):
    add_run(tmp_path, report())
    assert len(add_run(tmp_path, report(source="u")).runs) == 1
    assert len(add_run(tmp_path, report(fingerprint="g")).runs) == 1
    assert len(add_run(tmp_path, report()).runs) == 2
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("source", ["../../etc", "/tmp/x y", "a" * 300, "..", ""])
def test_the_name_of_a_series_stays_in_the_folder(tmp_path, source):
    add_run(tmp_path / "history", report(source=source))
    [series] = (tmp_path / "history").iterdir()
    assert len(series.name) < 100
    assert [file.name for file in tmp_path.iterdir()] == ["history"]


def test_other_files_are_named_and_left_alone(tmp_path):
    add_run(tmp_path, report())
    [series] = tmp_path.iterdir()
    bad = {
        "20260101T000000000000Z-00000000.json": "{",
        "20260101T000000000000Z-00000001.json": json.dumps({"judged": 1}),
        "notes.json": "[]",
    }
    for name, text in bad.items():
        (series / name).write_text(text)
    (series / "20260101T000000000000Z-00000002.json").mkdir()
    (series / "README").write_text("ours")
    found = add_run(tmp_path, report(2))
    assert [run.refused for run in found.runs] == [1, 2]
    assert {path.name for path in found.unreadable} == {
        *bad, "20260101T000000000000Z-00000002.json",
    }  # fmt: skip
    assert {name: (series / name).read_text() for name in bad} == bad


def test_the_oldest_runs_are_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "RUNS_MAX", 3)
    add_run(tmp_path, report())
    [series] = tmp_path.iterdir()
    corrupt = series / "20200101T000000000000Z-00000000.json"
    corrupt.write_text("{")
    abandoned, fresh = (series / f".x.json.{name}.tmp" for name in ("old", "new"))
    for path in (abandoned, fresh):
        path.write_text("")
    os.utime(abandoned, (time.time() - 90_000,) * 2)
    for refused in (2, 3, 4, 5):
        found = add_run(tmp_path, report(refused))
    assert [run.refused for run in found.runs] == [3, 4, 5]
    assert len(files(series)) == 3 + 2
    assert corrupt.exists()
    assert (abandoned.exists(), fresh.exists()) == (False, True)


def test_audits_at_the_same_time(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "RUNS_MAX", 10)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: add_run(tmp_path, report(n + 1)), range(40)))
    assert all(not result.unreadable for result in results)
    assert all(1 <= len(result.runs) <= 10 for result in results)
    assert len(add_run(tmp_path, report()).runs) == 10
    assert len(files(tmp_path)) == 10


def test_a_run_has_no_contents_of_records(tmp_path):
    add_run(tmp_path, report())
    [path] = tmp_path.rglob("*.json")
    assert set(json.loads(path.read_text())) == {
        "written", "judged", "share", "source", "fingerprint", "penstock",
        "accepted", "refused", "dropped", "failed",
    }  # fmt: skip
