"""Runs of audits."""

import datetime as dt

from penstock.jobs.report.history import AuditRun


def runs(*shares: float) -> list[AuditRun]:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return [
        AuditRun(
            written=start + dt.timedelta(days=n), judged=100, share=share, source="t",
            fingerprint="f", penstock="0", accepted=100,
        )
        for n, share in enumerate(shares)
    ]  # fmt: skip
