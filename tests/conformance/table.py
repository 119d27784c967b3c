"""The results for people, and for programs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.conformance.expected import Expected, reason
from tests.conformance.outcomes import Finding, Outcome
from tests.conformance.results import Result, Way
from tests.conformance.worlds import DIRECTLY, WAYS

_HEADS: Final = ("suite", "way", "passed", "failed", "skipped", "fail directly", "unsteady",
                 "expected", "different", "records judged", "minutes")  # fmt: skip
_LISTED: Final = (Finding.DIFFERENT, Finding.EXPECTED, Finding.UNSTEADY, Finding.FAILS_DIRECTLY)


def rows(results: Sequence[Result], expected: Sequence[Expected]) -> list[tuple[str, ...]]:
    """Return the cells of a row for each suite and way, the heads first."""
    made = [_HEADS]
    for result in results:
        name = f"{result.suite} {result.version}"
        if result.not_run:
            made.append((name, "not run", *("",) * (len(_HEADS) - 2)))
            continue
        findings = Counter((way, finding) for way, _, finding in result.found(expected))
        made += [
            (name, way, *_cells(way, result.ways[way], findings))
            for way in WAYS
            if way in result.ways
        ]
    return made


def _cells(name: str, way: Way, findings: Mapping[tuple[str, Finding], int]) -> tuple[str, ...]:
    """Return the cells of a row after the suite and the way."""
    last = Counter(runs[-1] for runs in way.attempts.values())
    outcomes = [str(last[outcome]) for outcome in Outcome]
    kinds = (Finding.FAILS_DIRECTLY, Finding.UNSTEADY, Finding.EXPECTED, Finding.DIFFERENT)
    compared = [""] * len(kinds) if name == DIRECTLY else [
        str(findings.get((name, kind), 0)) for kind in kinds
    ]  # fmt: skip
    judged = f"{sum(way.judged.values()):,.0f}" if way.judged else ""
    return (*outcomes, *compared, judged, f"{way.seconds / 60:.1f}")


def text(cells: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in plain text."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown."""
    head, *body = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([head, "|---" * len(cells[0]) + "|", *body])


def listing(results: Sequence[Result], expected: Sequence[Expected]) -> str:
    """Return a line for each test that is not the same in all ways, and for those that fail."""
    lines: dict[Finding, list[str]] = {finding: [] for finding in _LISTED}
    for result in results:
        by_test: dict[tuple[str, Finding], list[str]] = {}
        for way, test, finding in result.found(expected):
            if finding in lines:
                by_test.setdefault((test, finding), []).append(way)
        for (test, finding), ways in by_test.items():
            lines[finding].append(_line(result, test, ways, expected))
    return "\n".join(
        f"{finding}:\n" + "\n".join(f"  {line}" for line in found)
        for finding, found in lines.items()
        if found
    )


def _line(result: Result, test: str, ways: Sequence[str], expected: Sequence[Expected]) -> str:
    shown = ", ".join(
        f"{way} {'/'.join(result.ways[way].attempts.get(test, ['not run']))}"
        for way in (DIRECTLY, *ways)
    )
    why = reason(expected, result.suite, test, ways[0])
    return f"{result.suite} {test}: {shown}" + (f": {why}" if why else "")


def document(results: Sequence[Result], expected: Sequence[Expected]) -> str:
    """Return everything as JSON."""
    suites: list[dict[str, Any]] = []
    for result in results:
        findings = {(way, test): str(finding) for way, test, finding in result.found(expected)}
        suites.append({
            "suite": result.suite,
            "version": result.version,
            "not_run": result.not_run,
            "left_out": result.left_out,
            "ways": {
                name: {
                    "seconds": round(way.seconds, 1),
                    "judged": dict(way.judged),
                    "faults": list(way.faults),
                    "tests": {
                        test: {
                            "outcomes": runs,
                            "finding": findings.get((name, test), ""),
                            "reason": reason(expected, result.suite, test, name),
                        }
                        for test, runs in sorted(way.attempts.items())
                    },
                }
                for name, way in result.ways.items()
            },
        })  # fmt: skip
    return json.dumps({"suites": suites}, indent=1)
