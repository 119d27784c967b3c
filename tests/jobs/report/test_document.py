"""`report.json`: written, read again, and read where an earlier version wrote it."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.path_counts import PathCount
from penstock.jobs.report.document import RangeEntry, as_json, read_report
from tests.jobs.report.old_documents import OLD
from tests.jobs.report.samples import records, report_of

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())


def test_a_report_is_read_as_it_was_written(tmp_path):
    report = report_of(
        records(count=9),
        records(count=1, outcome="failed", code=-1),
        ranges=(RangeEntry(topic="t", partition=0, start=3, end=13),),
        paths=[PathCount("mask", "card.number", 10, 0), PathCount("mask", "iban", 10, 4)],
    )
    assert [path.path for path in report.unfound_paths] == ["card.number"]
    path = tmp_path / "report.json"
    path.write_text(as_json(report))
    assert read_report(path, key="--baseline") == report


def test_a_written_report_fits_the_schema():
    report = report_of(records(count=9), records(message="bad"), other="other.properties")
    document = json.loads(as_json(report))
    jsonschema_rs.validator_for(SCHEMA).validate(document)
    assert set(document) <= set(SCHEMA["properties"])
    assert document["reasons"][0]["samples"] == [{"partition": 0, "offset": 0}]


def test_the_fields_for_scripts_exist():
    document = json.loads(as_json(report_of(records(count=3), records(message="bad"))))
    top = ("judged", "accepted", "refused", "dropped", "failed", "share")
    assert [document[name] for name in top] == [4, 3, 1, 0, 0, 0.25]
    reason = document["reasons"][0]
    assert [reason[name] for name in ("policy", "code", "message", "count")] == [
        "p.P", 87, "bad", 1,
    ]  # fmt: skip
    assert set(OLD) <= set(document)
    assert set(OLD["about"]) <= set(document["about"])


def test_a_report_of_an_earlier_version_is_read(tmp_path):
    jsonschema_rs.validator_for(SCHEMA).validate(OLD)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(OLD))
    report = read_report(path, key="--baseline")
    assert (report.judged, report.reasons[0].message, report.topics) == (10, "bad", ())
    assert (report.about.ranges[0].start, report.about.ranges[0].end) == (0, 10)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("", "not a report.json"),
        ("{}", "judged: Field required"),
        ("[1]", "not a report.json"),
        (json.dumps({**OLD, "refused": -1}), "refused: Input should be greater"),
        (json.dumps({**OLD, "judged": "secret contents"}), "judged: Input should be a valid"),
    ],
)
def test_an_invalid_report_is_named_and_not_shown(tmp_path, content, why):
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError) as error:
        read_report(path, key="--baseline")
    assert f"--baseline {path}" in str(error.value)
    assert why in str(error.value)
    assert "secret" not in str(error.value)
