"""Counts and reports to test with."""

from penstock.jobs.report.counts import AuditCounts, Reason, Records
from penstock.jobs.report.document import About, ContractEntry, ContractRuleEntry
from penstock.jobs.report.summary import summarize

HOUR = 490_000
"""An hour of 2025."""


def records(topic="t", *, count=1, partition=0, hour=HOUR, first=0, last=None, other=None, **why):
    """Return records; accepted, unless `policy`, `message`, `code` or `outcome` say otherwise."""
    if why:
        reason = Reason(
            topic,
            why.get("outcome", "refused"),
            why.get("policy", "p.P"),
            why.get("code", 87),
            why.get("message", "bad"),
        )
        hints = ("source", "shop")
    else:
        reason, hints = Reason(topic, "accepted"), (None, None)
    return Records(
        reason, partition, hour, count, first, first if last is None else last, *hints, other
    )


def counted(*some):
    """Return the counts of records."""
    counts = AuditCounts()
    for item in some:
        counts.add(item)
    return counts


def report_of(*some, source="t", paths=(), **about):
    """Return the report of records."""
    counts = counted(*some)
    counts.paths.add(paths)
    return summarize(
        counts,
        About(source=source, file="/etc/penstock.properties", fingerprint="f" * 64, **about),
    )


def contract_of(*rules, topic="t"):
    """Return a contract with rules, each with `held` and what else there is of it."""
    made = tuple(
        ContractRuleEntry(**({"place": "o.a", "name": f"rule {n}", "metric": "rowCount", "measured": 1000,
                              "limit": "must be 5", "is_error": True} | rule))
        for n, rule in enumerate(rules)
    )  # fmt: skip
    return ContractEntry(topic=topic, policy="c", contract="contract orders 1, o", rules=made)
