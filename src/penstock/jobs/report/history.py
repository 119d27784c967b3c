"""The runs of an audit over time, one small file for each, to be drawn as a trend.

A folder holds a folder for each series: the audits of the same topics by the same plan. Any
number of audits may use it at the same time: a run is written under a temporary name and
then gets a unique name.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from penstock.jobs.report.atomic_file import TEMPORARY, write_file
from penstock.jobs.report.document import OutcomeCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from penstock.jobs.report.document import Report

RUNS_MAX: Final = 1000
"""The maximum number of runs that are kept of a series; the oldest are removed."""
_NAME_MAX: Final = 60
_RUN: Final = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}\.json")
"""The names of runs: when they were written, to the microsecond, and a random number."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ABANDONED_S: Final = 24 * 3600.0


class AuditRun(OutcomeCounts):
    """One audit.

    Attributes:
        written: When, in ISO 8601.
        judged: How many records were judged.
        share: The share of them that was refused or failed.
        source: The topics or files.
        fingerprint: A hash of the plan.
    """

    written: dt.datetime
    judged: int
    share: float
    source: str
    fingerprint: str
    penstock: str


class Series(NamedTuple):
    """The runs of a series by time, and the other files in its folder."""

    runs: Sequence[AuditRun]
    unreadable: Sequence[Path]


def add_run(folder: Path, report: Report) -> Series:
    """Keep a run, and return the series that it belongs to, with the run.

    Args:
        folder: Where all series are kept; it is created.
        report: The report of the run.

    Raises:
        OSError: The folder cannot be read or written.
    """
    series = folder / _series_name(report)
    series.mkdir(parents=True, exist_ok=True)
    about = report.about
    run = AuditRun(
        written=dt.datetime.now(dt.UTC),
        judged=report.judged,
        share=report.share,
        source=about.source,
        fingerprint=about.fingerprint,
        penstock=about.penstock,
        accepted=report.accepted,
        refused=report.refused,
        dropped=report.dropped,
        failed=report.failed,
    )
    path = series / f"{run.written:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}.json"
    write_file(path, run.model_dump_json(indent=1) + "\n")
    runs, unreadable = _read(series)
    _remove_oldest(series, runs)
    runs[path] = run  # others may have written so many since that it was removed
    ordered = sorted(runs.values(), key=lambda run: run.written)
    return Series(ordered[-RUNS_MAX:], unreadable)


def _series_name(report: Report) -> str:
    """Return a name that is the same for the same plan and topics, and contains the topics."""
    key = f"{report.about.fingerprint}\n{report.about.source}"
    digest = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{_UNSAFE.sub('_', report.about.source)[:_NAME_MAX].lstrip('.')}-{digest}"


def _read(series: Path) -> tuple[dict[Path, AuditRun], list[Path]]:
    """Return the runs in a folder by their files, and the files that are no runs."""
    runs, unreadable = {}, []
    for path in sorted(series.glob("*.json")):
        try:
            runs[path] = AuditRun.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            continue  # another audit removed it
        except (ValidationError, OSError):
            unreadable.append(path)
    return runs, unreadable


def _remove_oldest(series: Path, runs: Iterable[Path]) -> None:
    """Remove runs beyond the limit, and files of audits that were killed; nothing else."""
    run_files = sorted(path for path in runs if _RUN.fullmatch(path.name))
    for path in run_files[:-RUNS_MAX]:
        path.unlink(missing_ok=True)
    cutoff = time.time() - _ABANDONED_S
    for path in series.glob(f".*.json.*{TEMPORARY}"):
        try:
            if path.stat().st_mtime < cutoff:
                path.unlink()
        except FileNotFoundError:
            continue  # another audit renamed or removed it
