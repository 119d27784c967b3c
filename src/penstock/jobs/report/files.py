"""The files of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobs.report.atomic_file import write_file
from penstock.jobs.report.document import as_json
from penstock.jobs.report.junit import as_junit
from penstock.jobs.report.page import as_html

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.jobs.report.document import Report
    from penstock.jobs.report.history import AuditRun


def write_report(
    folder: Path, report: Report, runs: Sequence[AuditRun] | None = None
) -> dict[str, Path]:
    """Write `report.json`, `report.html` and `junit.xml`; return their paths by name.

    Args:
        folder: Where; it is created.
        runs: The runs that are kept, to be drawn as a trend; None where none are.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.json": as_json(report),
        "report.html": as_html(report, runs),
        "junit.xml": as_junit(report),
    }
    paths = {}
    for name, text in contents.items():
        paths[name] = folder / name
        write_file(paths[name], text)
    return paths
