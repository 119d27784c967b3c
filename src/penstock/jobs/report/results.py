"""An audit, or the counts of expectations, in the forms that other tools read.

OpenLineage has a facet of a data set for them (`DataQualityAssertionsDatasetFacet` 1-1-0), which
catalogs read; datacontract-cli and what shows its runs have a `Run` with checks.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from penstock import __version__
from penstock.jobs.report.document import Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.jobs.report.document import ContractEntry, ContractRuleEntry

_PRODUCER: Final = f"https://pypi.org/project/penstock-kafka/{__version__}"
_FACET: Final = (
    "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json"
    "#/$defs/DataQualityAssertionsDatasetFacet"
)
_ENGINE: Final = "penstock"
_KEEP: Final = "keep"
"""The action of an expectation that leaves a row as it is."""
_SERIOUS: Final = ("failed", "warning", "passed", "unknown")
"""The results of checks, the worst first: that of a run is the worst of its checks."""


class _Result(NamedTuple):
    """What came of a rule.

    Attributes:
        name: The rule, by a name that no other has.
        kind: What it demands: a rule, a metric of a contract, an expectation.
        model: The topic, or the object of a contract.
        column: The column that it is about, where that is known.
        is_met: Whether the data meets it; None if that is not judged.
        is_error: Whether more than a warning results if not.
        demand: What it requires, as text: `0`, or the limit of a metric.
        actual: The counted or measured value, as text.
        reason: Why it is not met, or not judged.
        counts: How many rows there are, and how many it objects to.
        samples: Labels of some of these.
    """

    name: str
    kind: str
    model: str | None
    is_met: bool | None
    is_error: bool
    demand: str
    actual: str
    reason: str
    column: str | None = None
    counts: tuple[int, int] | None = None
    samples: Sequence[str | None] = ()

    @property
    def text(self) -> str:
        """The result, as datacontract-cli names it."""
        if self.is_met is None:
            return "unknown"
        return "passed" if self.is_met else "failed" if self.is_error else "warning"


def as_openlineage(results: Report | Iterable[Any]) -> dict[str, Any]:
    """Return results as a facet of a data set for OpenLineage's events.

    Args:
        results: A report of rows or records; or the rows of a pipeline's `<table>_expectations`.

    Returns:
        The facet by its name, for `inputFacets` of a data set. Rules that are not judged are not
        in it.
    """
    assertions = [
        _without_absent({
            "assertion": result.kind,
            "success": result.is_met,
            "column": result.column,
            "severity": "error" if result.is_error else "warn",
            "name": result.name,
            "expected": result.demand,
            "actual": result.actual,
        })
        for result in _results(results)
        if result.is_met is not None
    ]  # fmt: skip
    facet = {"_producer": _PRODUCER, "_schemaURL": _FACET, "assertions": assertions}
    return {"dataQualityAssertions": facet}


def as_datacontract(results: Report | Iterable[Any]) -> dict[str, Any]:
    """Return results as a run of datacontract-cli.

    Args:
        results: A report of rows or records; or the rows of a pipeline's `<table>_expectations`.

    Returns:
        The run, ready to be written as JSON.
    """
    checks = [_check(result) for result in _results(results)]
    texts = {check["result"] for check in checks}
    began, ended = _times(results)
    return {
        "runId": str(uuid4()),
        "timestampStart": began.isoformat(),
        "timestampEnd": ended.isoformat(),
        "result": next((text for text in _SERIOUS if text in texts), "unknown"),
        "checks": checks,
        "logs": [],
    }


def _check(result: _Result) -> dict[str, Any]:
    diagnostics: dict[str, Any] = {}
    if result.counts is not None:
        rows, failed = result.counts
        diagnostics = {"rows": rows, "failed_rows": failed}
    if result.samples:
        diagnostics["samples"] = list(result.samples)
    return _without_absent({
        "key": result.name,
        "category": "quality",
        "type": result.kind,
        "name": result.name,
        "model": result.model,
        "field": result.column,
        "engine": _ENGINE,
        "result": result.text,
        "reason": None if result.is_met else result.reason,
        "diagnostics": diagnostics or None,
    })  # fmt: skip


def _results(results: Report | Iterable[Any]) -> Iterator[_Result]:
    if not isinstance(results, Report):
        yield from map(_of_expectation, results)
        return
    if results.about.is_rows:
        yield from _of_rules(results)
    else:
        yield from _of_policies(results)
    for contract in results.contracts:
        yield from (_of_contract(contract, rule) for rule in contract.rules)


def _of_rules(report: Report) -> Iterator[_Result]:
    [topic] = report.topics
    for rule in report.rules:
        yield _counted(
            rule.title, "rule", topic.topic, report.judged, rule.count,
            is_error=not rule.only_warns, samples=rule.samples,
        )  # fmt: skip


def _of_policies(report: Report) -> Iterator[_Result]:
    """Yield the policies that turned records away: a report of records has no others."""
    totals = {topic.topic: topic.judged for topic in report.topics}
    for entry in report.policies:
        count = entry.count if entry.turned_away is None else entry.turned_away
        total = totals.get(entry.topic or "", report.judged)
        yield _counted(entry.policy, "policy", entry.topic, total, count)


def _of_contract(contract: ContractEntry, rule: ContractRuleEntry) -> _Result:
    return _Result(
        f"{contract.contract}: {rule.title}",
        rule.metric or "rule",
        contract.topic,
        rule.held,
        rule.is_error,
        rule.limit or "",
        rule.measured_text,
        rule.shown,
        column=rule.place.partition(".")[2] or None,
    )


def _of_expectation(row: Any) -> _Result:
    """Return what came of an expectation.

    Args:
        row: Of `<table>_expectations`: `expectation`, `action`, `passed`, `failed`.
    """
    return _counted(
        row["expectation"], "expectation", None, row["passed"] + row["failed"], row["failed"],
        is_error=row["action"] != _KEEP,
    )  # fmt: skip


def _counted(
    name: str,
    kind: str,
    model: str | None,
    rows: int,
    failed: int,
    *,
    is_error: bool = True,
    samples: Sequence[str | None] = (),
) -> _Result:
    """Return what came of a rule that every row has to meet."""
    return _Result(
        name, kind, model, not failed, is_error, "0", str(failed), f"{failed:,} of {rows:,}",
        counts=(rows, failed), samples=samples,
    )  # fmt: skip


def _times(results: Report | Iterable[Any]) -> tuple[dt.datetime, dt.datetime]:
    """Return when an audit began and ended; for others, the present."""
    now = dt.datetime.now(dt.UTC)
    if not isinstance(results, Report):
        return now, now
    about = results.about
    ended = dt.datetime.fromisoformat(about.written) if about.written else now
    return ended - dt.timedelta(seconds=about.seconds), ended


def _without_absent(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
