"""`penstock audit` apart from judging: its options, its exit codes, its files and its output."""

import argparse
import json
import shutil

import pytest

from penstock import cli
from penstock.cli.audit import conclude
from penstock.configuration import ConfigurationError
from penstock.engine.path_counts import PathCount
from penstock.jobs.report.document import as_json
from tests.jobs.report.samples import records, report_of

GOOD = report_of(records(count=90), records(count=10, message="bad"))
WORSE = report_of(records(count=80), records(count=20, message="bad"))
OTHER = report_of(records("u", count=80), source="u")


def options_of(**options):
    named = dict.fromkeys(("report", "fail_over", "baseline", "tolerance", "history", "input"))
    return argparse.Namespace(**(named | {"topic": "t"} | options))


def run(*arguments, capsys):
    code = cli.main(["audit", *map(str, arguments)])
    return code, capsys.readouterr()


def test_the_share_may_equal_the_limit():
    assert conclude(options_of(fail_over=0.1), GOOD, None) == 0
    assert conclude(options_of(fail_over=0.0999), GOOD, None) == 1
    assert conclude(options_of(), GOOD, None) == 0


def test_a_report_that_is_worse_than_the_baseline_is_1(tmp_path, capsys):
    options = options_of(baseline="last.json", report=str(tmp_path))
    assert conclude(options, GOOD, GOOD) == 0
    assert "no worse than last.json" in capsys.readouterr().out
    assert conclude(options, WORSE, GOOD) == 1
    out = capsys.readouterr().out
    assert "worse than last.json" in out
    assert "  t, p.P, 87 bad: 20 of 100 (20.0000%), before 10 of 100 (10.0000%)" in out
    assert json.loads((tmp_path / "report.json").read_text())["baseline"]["worse"]
    assert conclude(options_of(baseline="last.json", tolerance=0.1), WORSE, GOOD) == 0
    assert conclude(options_of(baseline="last.json", fail_over=0.1), WORSE, WORSE) == 1


def test_a_report_can_replace_its_own_baseline(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(as_json(GOOD))
    assert conclude(options_of(baseline=str(path), report=str(tmp_path)), WORSE, GOOD) == 1
    assert json.loads(path.read_text())["refused"] == 20


def test_a_baseline_of_other_topics_is_an_error_and_the_report_is_written(tmp_path):
    with pytest.raises(ConfigurationError, match="not about t"):
        conclude(options_of(baseline="last.json", report=str(tmp_path)), GOOD, OTHER)
    assert (tmp_path / "report.json").exists()
    assert conclude(options_of(baseline="last.json"), report_of(), OTHER) == 0


def test_long_lists_are_cut_on_the_terminal(capsys):
    many = report_of(*(records(message=f"m{n}") for n in range(30)))
    conclude(options_of(baseline="last.json"), many, report_of(records()))
    lines = capsys.readouterr().out.splitlines()
    assert "  and 20 more reasons" in lines
    assert "  and 22 more that got worse" in lines
    assert len(lines) < 30


def test_times_out_of_range_are_reported(capsys):
    conclude(options_of(), report_of(records(count=3, hour=10**10)), None)
    assert "3 records have a time out of range (1970 to 9999)" in capsys.readouterr().out


def test_runs_are_stored_in_the_history_and_drawn(tmp_path, capsys):
    options = options_of(history=str(tmp_path / "runs"), report=str(tmp_path / "report"))
    for report in (GOOD, WORSE):
        assert conclude(options, report, None) == 0
    assert "turned away in 2 runs" in (tmp_path / "report" / "report.html").read_text()
    [series] = (tmp_path / "runs").iterdir()
    (series / "broken.json").write_text("{")
    conclude(options, GOOD, None)
    assert f"{series / 'broken.json'} is not a summary of an audit; ignored" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "t", "--fail-over", "5"], "'5' is not a share"),
        (["--topic", "t", "--tolerance", "1%"], "--tolerance requires --baseline"),
        (["--topic", "t", "--baseline", "missing.json"], "--baseline missing.json: No such file"),
        (["--topics", "--baseline", "last.json"], "--topics judges all topics"),
        (["--topics", "--history", "runs"], "--topics judges all topics"),
    ],
)
def test_wrong_arguments_are_reported_before_work_starts(
    tmp_path, monkeypatch, capsys, options, message
):
    monkeypatch.chdir(tmp_path)
    try:
        code, output = run("penstock.properties", *options, capsys=capsys)
    except SystemExit as error:
        code, output = error.code, capsys.readouterr()
    assert (code, message in output.err) == (2, True), output.err


def test_baselines_and_folders_are_checked_before_spark_starts(tmp_path, capsys):
    path = tmp_path / "report.json"
    path.write_text(as_json(OTHER))
    code, output = run("f", "--topic", "t", "--baseline", path, capsys=capsys)
    assert (code, "it is not about t" in output.err) == (2, True), output.err
    path.write_text("{}")
    code, output = run("f", "--topic", "t", "--baseline", path, capsys=capsys)
    assert (code, "not a report.json" in output.err) == (2, True), output.err
    code, output = run("f", "--topic", "t", "--history", path / "runs", capsys=capsys)
    assert (code, f"--history {path / 'runs'}" in output.err) == (2, True), output.err


def test_paths_that_lead_to_no_field_are_notes(capsys):
    paths = [PathCount("mask", f"a{number:02}", 10, number // 12) for number in range(20)]
    assert conclude(options_of(), report_of(records(count=10), paths=paths), None) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note:")]
    assert notes[0] == "note: mask: a00 is in none of 10 JSON values"
    assert notes[9:] == ["note: mask: a09 is in none of 10 JSON values", "note: and 2 more paths"]


@pytest.mark.parametrize("options", [[], ["--local"]])
def test_an_invalid_record_line_is_wrong_use_before_spark_starts(options, tmp_path, capsys):
    if not options:
        pytest.importorskip("pyspark")
    file, records = tmp_path / "penstock.properties", tmp_path / "records.jsonl"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    records.write_text('{"value": "x"}\n{"value": {"id": 1}}\n')
    code, output = run(file, "--input", records, *options, capsys=capsys)
    message = f"--input {records}, line 2: value must be a string or null, not an object"
    assert (code, message in output.err, "Spark" in output.err) == (2, True, False)


@pytest.mark.parametrize("key", ["--from", "--to"])
@pytest.mark.parametrize("command", ["audit", "suggest"])
def test_a_place_is_checked_before_the_cluster_is_contacted(command, key, tmp_path, capsys):
    file = tmp_path / "penstock.properties"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    local = ["--local"] if command == "audit" else []
    code = cli.main([command, str(file), *local, "--topic", "t", key, "yesterday"])
    message = f"{key} yesterday: must be earliest, latest, an ISO time"
    assert (code, message in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize(("key", "place"), [("--from", "latest"), ("--to", "2026-01-01")])
@pytest.mark.parametrize("command", ["audit", "suggest"])
def test_a_file_is_read_whole(command, key, place, tmp_path, capsys):
    file, records = tmp_path / "penstock.properties", tmp_path / "records.jsonl"
    file.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    records.write_text('{"value": "x"}\n')
    options = ["--local"] if command == "audit" else ["--topic", "t"]

    code = cli.main([command, str(file), *options, "--input", str(records), key, place])

    message = f"{key} {place}: all of --input is read; leave out {key}, or read a topic"
    assert (code, message in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("key", ["--report", "--history"])
def test_a_folder_that_cannot_be_written_is_reported_before_the_work(key, tmp_path, capsys):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", "/proc/self/task"):
        code, output = run("f", "--topic", "t", key, path, capsys=capsys)
        assert (code, f"{key} {path}" in output.err) == (2, True), output.err


def test_the_report_is_written_even_if_the_history_cannot_be(tmp_path, capsys):
    history, report = tmp_path / "runs", tmp_path / "report"
    conclude(options_of(history=str(history)), GOOD, None)
    [series] = history.iterdir()
    shutil.rmtree(series)
    series.touch()
    capsys.readouterr()
    with pytest.raises(OSError, match="File exists"):
        conclude(options_of(history=str(history), report=str(report)), GOOD, None)
    assert "100 records judged" in capsys.readouterr().out
    assert json.loads((report / "report.json").read_text())["judged"] == 100
