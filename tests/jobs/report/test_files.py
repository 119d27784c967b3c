"""The three files of a report."""

import json
from xml.etree import ElementTree as ET

import pytest

from penstock.jobs.report.files import write_report
from tests.jobs.report.samples import records, report_of


@pytest.mark.thorough
def test_three_files_are_written_and_written_again(tmp_path):
    folder = tmp_path / "a" / "b"
    for count in (3, 4):
        written = write_report(folder, report_of(records(count=count)))
    assert set(written) == {path.name for path in folder.iterdir()}
    assert set(written) == {"report.json", "report.html", "junit.xml"}
    assert json.loads(written["report.json"].read_text())["judged"] == 4
    assert ET.parse(written["junit.xml"]).getroot().tag == "testsuite"
    assert written["report.html"].read_text().startswith("<!doctype html>")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        write_report(tmp_path / "file" / "folder", report_of())
