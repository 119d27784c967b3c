"""An audit as files: `report.html` for people, `report.json` for machines, `junit.xml` for CI."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from jinja2 import Environment, PackageLoader, select_autoescape

from penstock import __version__
from penstock.engine.verdict import REJECTED, Outcome
from penstock.spark.audit import OUTCOMES, REASONS_MAX, most_common

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.spark.audit import Audit, Reason, Sample

_HOUR_S: Final = 3600


@dataclass(frozen=True)
class About:
    """The subject of an audit, and its settings.

    Attributes:
        source: The topic or the files.
        range: Offsets by partition, from and up to; empty for files.
        file: The configuration file.
        fingerprint: A hash of what its verdicts depend on.
        other: The file it was compared with, or None.
        fail_over: The largest share of records that may fall short, or None.
        seconds: How long it took.
    """

    source: str
    range: Mapping[int, tuple[int, int]]
    file: str
    fingerprint: str
    other: str | None
    fail_over: float | None
    seconds: float


def write_report(folder: Path, result: Audit, about: About) -> dict[str, Path]:
    """Write the three files; return their paths by name.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = as_json(result, about)
    contents = {
        "report.json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
        "report.html": _as_html(document),
        "junit.xml": _as_junit(document),
    }
    written = {}
    for name, text in contents.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written[name] = path
    return written


def as_json(result: Audit, about: About) -> dict[str, Any]:
    """Return `report.json`; `docs/report.schema.json` describes it."""
    return {
        "judged": result.judged,
        **{outcome: result.outcomes[outcome] for outcome in OUTCOMES},
        "share": result.share,
        "reasons": [
            {
                "outcome": reason.outcome,
                **_reason(reason, count),
                "samples": [_sample(sample) for sample in result.samples[reason]],
            }
            for reason, count in result.reasons.most_common(REASONS_MAX)
        ],
        "reasons_left_out": sum(c for _, c in result.reasons.most_common()[REASONS_MAX:]),
        "policies": [{"policy": name, "count": n} for name, n in result.policies.most_common()],
        "partitions": [
            {
                "partition": number,
                **{outcome: counts.outcomes[outcome] for outcome in OUTCOMES},
                "first_refused_offset": counts.first_refused,
                "last_refused_offset": counts.last_refused,
            }
            for number, counts in sorted(result.partitions.items())
        ],
        "hours": [
            {
                "hour": None if hour is None else _time(hour),
                **{outcome: counts[outcome] for outcome in OUTCOMES},
            }
            for hour, counts in sorted(result.hours.items(), key=lambda one: one[0] or 0)
        ],
        "header_keys": _hints(result.header_keys),
        "key_prefixes": _hints(result.key_prefixes),
        "compared": _compared(result) if about.other else None,
        "about": {
            "source": about.source,
            "range": [
                {"partition": number, "from": start, "to": end}
                for number, (start, end) in sorted(about.range.items())
            ],
            "file": about.file,
            "fingerprint": about.fingerprint,
            "other": about.other,
            "fail_over": about.fail_over,
            "seconds": round(about.seconds, 1),
            "penstock": __version__,
            "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        },
    }


def _reason(reason: Reason, count: int) -> dict[str, Any]:
    return {
        "policy": reason.policy,
        "code": reason.code,
        "message": reason.message,
        "count": count,
    }


def _compared(result: Audit) -> dict[str, Any]:
    return {
        "newly_refused": sum(result.newly_refused.values()),
        "newly_accepted": sum(result.newly_accepted.values()),
        "outcomes": [
            {"this": this, "other": other, "count": count}
            for (this, other), count in sorted(result.compared.items())
        ],
        "newly_refused_reasons": [
            _reason(reason, count)
            for reason, count in result.newly_refused.most_common(REASONS_MAX)
        ],
        "newly_accepted_reasons": [
            _reason(reason, count)
            for reason, count in result.newly_accepted.most_common(REASONS_MAX)
        ],
    }


def _hints(counts: Counter[str]) -> list[dict[str, Any]]:
    return [{"hint": hint, "count": count} for hint, count in most_common(counts)]


def _sample(sample: Sample) -> dict[str, Any]:
    shown: dict[str, Any] = {"partition": sample.partition, "offset": sample.offset}
    for name, content in (("key", sample.key), ("value", sample.value)):
        if content is not None:
            shown[name] = content.decode("utf-8", "backslashreplace")
    return shown


def _time(hour: int) -> str:
    moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(seconds=hour * _HOUR_S)
    return moment.isoformat(timespec="minutes")


def _as_html(document: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=PackageLoader("penstock.spark.report", "."),
        autoescape=select_autoescape(default=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["percent"] = lambda share: f"{share:.2%}"
    hours = document["hours"]
    most = max((sum(hour[o] for o in OUTCOMES) for hour in hours), default=1) or 1
    return environment.get_template("report.html.j2").render(
        report=document, outcomes=OUTCOMES, hours_most=most
    )


def _as_junit(document: Mapping[str, Any]) -> str:
    """One test case for each policy; it fails where records fell short by it."""
    about = document["about"]
    short = sum(document[outcome] for outcome in REJECTED)
    over = short > 0 if about["fail_over"] is None else document["share"] > about["fail_over"]
    policies: dict[str, list[Mapping[str, Any]]] = {}
    for reason in document["reasons"]:
        if reason["outcome"] != Outcome.DROPPED:
            policies.setdefault(reason["policy"] or "", []).append(reason)
    suite = ET.Element(
        "testsuite",
        name=f"penstock audit {about['source']}",
        tests=str(max(1, len(policies))),
        failures=str(len(policies) if over else 0),
        time=str(about["seconds"]),
    )
    if not policies:
        ET.SubElement(suite, "testcase", classname=about["source"], name="every record")
    for policy, reasons in policies.items():
        case = ET.SubElement(suite, "testcase", classname=about["source"], name=policy)
        lines = [f"{r['count']} records, error {r['code']}: {r['message']}" for r in reasons]
        if over:
            count = sum(r["count"] for r in reasons)
            failure = ET.SubElement(
                case, "failure", message=f"{count} of {document['judged']} records"
            )
            failure.text = _printable("\n".join(lines))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """Remove characters that are not allowed in XML."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)
