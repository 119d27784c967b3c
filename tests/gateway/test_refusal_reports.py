"""Where a refusal is reported."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.engine.verdict import FailureCause, failed, refused
from penstock.gateway.refusal_log import Refused
from penstock.gateway.refusal_reports import RefusalReports

REFUSED = Refused("orders", 3, "app", refused(87, "no", "a.V"))
OBSERVED = replace(REFUSED, is_observed=True)
ABANDONED = replace(
    REFUSED, verdict=replace(failed("a.V", "the client has gone"), cause=FailureCause.ABANDONED)
)


@pytest.mark.parametrize(
    ("refusal", "places"),
    [
        (REFUSED, ["trail", "console", "log"]),
        (OBSERVED, ["console", "log"]),
        (ABANDONED, []),
    ],
    ids=["refused", "only observed", "of a client that has gone"],
)
def test_a_refusal_is_reported_everywhere_and_one_that_changed_nothing_not_in_the_trail(
    refusal, places
):
    reported = []

    def place(name):
        return lambda what: reported.append((name, what))

    reports = RefusalReports(place("log"))
    reports.audit_trail = SimpleNamespace(put=place("trail"))
    reports.show = place("console")
    reports.report(refusal)

    assert reported == [(name, refusal) for name in places]


async def test_without_a_trail_and_a_console_refusals_are_logged():
    logged = []
    reports = RefusalReports(logged.append)
    reports.report(REFUSED)
    reports.reopen()
    await reports.close()

    assert logged == [REFUSED]


async def test_the_audit_trail_is_reopened_and_closed():
    calls = []
    reports = RefusalReports()
    reports.audit_trail = SimpleNamespace(
        reopen=lambda: calls.append("reopen"), close=lambda: calls.append("close")
    )
    reports.reopen()
    await reports.close()

    assert calls == ["reopen", "close"]
