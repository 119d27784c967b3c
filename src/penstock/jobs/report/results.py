"""An audit, or the counts of expectations, in the forms that other tools read.

OpenLineage has a facet of a data set for them (`DataQualityAssertionsDatasetFacet` 1-1-0), which
catalogs read; datacontract-cli and what shows its runs have a `Run` with checks.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from penstock import __version__
from penstock.configuration import ConfigurationError
from penstock.jobs.report.document import FRAME, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.jobs.report.document import ContractEntry, ContractRuleEntry

_PRODUCER: Final = f"https://pypi.org/project/penstock-kafka/{__version__}"
_FACET: Final = (
    "https://openlineage.io/spec/facets/1-1-0/DataQualityAssertionsDatasetFacet.json"
    "#/$defs/DataQualityAssertionsDatasetFacet"
)
_ENGINE: Final = "penstock"
_ALL: Final = "every record"
KEPT: Final = "keep"
"""The action of an expectation that leaves a row as it is."""
_SERIOUS: Final = ("failed", "warning", "passed", "unknown")
"""The results of checks, the worst first: that of a run is the worst of its checks."""


class _Result(NamedTuple):
    """What came of a rule.

    Attributes:
        key: Of the topic or table, the policy and the rule: the same in each run.
        name: The rule, for people.
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

    key: tuple[str, ...]
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


def as_openlineage(results: Report | Iterable[Any], *, table: str | None = None) -> dict[str, Any]:
    """Return results as a facet of a data set for OpenLineage's events.

    Args:
        results: A report of rows or records; or the rows of a pipeline's `<table>_expectations`.
        table: The name of the table that they are about, where results do not say it.

    Returns:
        The facet by its name, for `inputFacets` of a data set. Rules that are not judged are not
        in it. The `name` of an assertion is the same in each run, and no other has it.
    """
    assertions = [
        _without_absent({
            "assertion": result.kind,
            "success": result.is_met,
            "column": result.column,
            "severity": "error" if result.is_error else "warn",
            "name": key,
            "expected": result.demand,
            "actual": result.actual,
        })
        for key, result in _by_key(results, table)
        if result.is_met is not None
    ]  # fmt: skip
    facet = {"_producer": _PRODUCER, "_schemaURL": _FACET, "assertions": assertions}
    return {"dataQualityAssertions": facet}


def as_datacontract(results: Report | Iterable[Any], *, table: str | None = None) -> dict[str, Any]:
    """Return results as a run of datacontract-cli.

    Args:
        results: A report of rows or records; or the rows of a pipeline's `<table>_expectations`.
        table: The name of the table that they are about, where results do not say it.

    Returns:
        The run, ready to be written as JSON. The `key` of a check is the same in each run, and no
        other has it.
    """
    checks = [_check(key, result) for key, result in _by_key(results, table)]
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


def _check(key: str, result: _Result) -> dict[str, Any]:
    diagnostics: dict[str, Any] = {}
    if result.counts is not None:
        rows, failed = result.counts
        diagnostics = {"rows": rows, "failed_rows": failed}
    if result.samples:
        diagnostics["samples"] = list(result.samples)
    return _without_absent({
        "key": key,
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


def _by_key(results: Report | Iterable[Any], table: str | None) -> Iterator[tuple[str, _Result]]:
    """Yield results, each with a key that no other has."""
    uses: Counter[str] = Counter()
    for result in _results(results, table):
        key = "/".join(result.key)
        uses[key] += 1
        yield key if uses[key] == 1 else f"{key}#{uses[key]}", result


def _results(results: Report | Iterable[Any], table: str | None) -> Iterator[_Result]:
    if not isinstance(results, Report):
        if isinstance(results, (str, bytes)) or hasattr(results, "collect"):
            raise ConfigurationError(
                "results: pass a report of audit_rows or audit, or the collected rows of a table "
                f"of expectations, not {type(results).__name__}"
            )
        yield from (_of_expectation(row, table) for row in results)
        return
    about = results.about
    if about.is_rows:
        table = table or (None if about.source == FRAME else about.source)
        yield from _of_rules(results, table)
    else:
        yield from _of_topics(results)
        yield from _of_policies(results)
    for contract in results.contracts:
        yield from (_of_contract(contract, rule, table) for rule in contract.rules)


def _of_rules(report: Report, table: str | None) -> Iterator[_Result]:
    [topic] = report.topics
    place = table or topic.topic
    for rule in report.rules:
        names = (rule.policy,) if rule.rule is None else (rule.policy, rule.rule)
        yield _counted(
            (place, *names), ".".join(names), "rule", place, report.judged, rule.count,
            is_error=not rule.only_warns, samples=rule.samples,
        )  # fmt: skip


def _of_topics(report: Report) -> Iterator[_Result]:
    """Yield for each topic whether all of its records hold."""
    for topic in report.topics:
        yield _counted(
            (topic.topic, _ALL), _ALL, "records", topic.topic, topic.judged, topic.turned_away
        )


def _of_policies(report: Report) -> Iterator[_Result]:
    """Yield the policies that turned records away: a report of records has no others."""
    totals = {topic.topic: topic.judged for topic in report.topics}
    for entry in report.policies:
        count = entry.count if entry.turned_away is None else entry.turned_away
        total = totals.get(entry.topic or "", report.judged)
        key = (entry.topic or report.about.source, entry.policy)
        yield _counted(key, entry.policy, "policy", entry.topic, total, count)


def _of_contract(contract: ContractEntry, rule: ContractRuleEntry, table: str | None) -> _Result:
    return _Result(
        (table or contract.topic, contract.policy, rule.title),
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


def _of_expectation(row: Any, table: str | None) -> _Result:
    """Return what came of an expectation.

    Args:
        row: Of `<table>_expectations`: `expectation`, `action`, `passed`, `failed`.
        table: The table, if it is named.
    """
    name = row["expectation"]
    key = (name,) if table is None else (table, name)
    return _counted(
        key, name, "expectation", table, row["passed"] + row["failed"], row["failed"],
        is_error=row["action"] != KEPT,
    )  # fmt: skip


def _counted(
    key: tuple[str, ...],
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
        key, name, kind, model, not failed, is_error, "0", str(failed),
        f"{failed:,} of {rows:,}", counts=(rows, failed), samples=samples,
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
