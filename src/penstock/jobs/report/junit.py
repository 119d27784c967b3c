"""An audit as `junit.xml`, which CI systems show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from penstock.jobs.report.baseline import in_words

if TYPE_CHECKING:
    from penstock.jobs.report.document import ReasonEntry, Report

_LINES_MAX: Final = 100
"""How many reasons a test case lists."""


def as_junit(report: Report) -> str:
    """Return `junit.xml`: a test case for each policy, one for the baseline, and one
    for each rule of a contract about the complete topic.

    A policy's test case fails where records were turned away by it: any, or more than
    `--fail-over` allows in all.
    """
    about = report.about
    limit = about.fail_over or 0.0
    policies: dict[str, list[ReasonEntry]] = {}
    for reason in report.reasons:
        if reason.turns_away:
            policies.setdefault(reason.policy or "", []).append(reason)
    suite = ET.Element("testsuite", name=f"penstock audit {_printable(about.source)}")
    failures = 0
    for policy, reasons in policies.items():
        lines = [
            f"{r.count} {about.unit}, error {r.code}: {r.message}" for r in reasons[:_LINES_MAX]
        ]
        if len(reasons) > _LINES_MAX:
            lines.append(f"and {len(reasons) - _LINES_MAX} more reasons, in report.json")
        summary = f"{sum(r.count for r in reasons)} of {report.judged} {about.unit}"
        fails = report.share > limit
        failures += fails
        _case(suite, about.source, policy, (summary, lines) if fails else None)
    if not policies:
        _case(suite, about.source, f"every {about.unit.removesuffix('s')}", None)
    if report.baseline is not None:
        worse = [in_words(difference) for difference in report.baseline.worse]
        failures += bool(worse)
        summary = f"worse than {report.baseline.file}"
        _case(
            suite, about.source, "no worse than the baseline", (summary, worse) if worse else None
        )
    for contract in report.contracts:
        for rule in contract.rules:
            if rule.held is not None:
                is_broken = not rule.held and rule.is_error
                failures += is_broken
                failure: tuple[str, list[str]] = (rule.shown, [])
                _case(
                    suite,
                    contract.topic,
                    f"{contract.contract}: {rule.title}",
                    failure if is_broken else None,
                )
    suite.attrib |= {
        "tests": str(len(suite)),
        "failures": str(failures),
        "time": str(about.seconds),
    }
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, source: str, name: str, failure: tuple[str, list[str]] | None) -> None:
    case = ET.SubElement(suite, "testcase", classname=_printable(source), name=_printable(name))
    if failure is not None:
        summary, lines = failure
        element = ET.SubElement(case, "failure", message=_printable(summary))
        element.text = _printable("\n".join(lines))


def _printable(text: str) -> str:
    """Remove characters that are not allowed in XML."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)
