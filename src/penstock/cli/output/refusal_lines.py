"""A refusal in some lines, for the user of `penstock dev`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.cli.output.printable import printable
from penstock.engine.verdict import STORED, Outcome

if TYPE_CHECKING:
    from penstock.gateway.refusal_log import Refused

RECORDS_SHOWN: Final = 5


def refusal_lines(refused: Refused) -> list[str]:
    """Return the refused topic, its client and the reason, without control characters."""
    verdict = refused.verdict
    what = "FAILED " if verdict.outcome is Outcome.FAILED else verdict.outcome.value
    place = refused.topic
    if refused.partition is not None:
        place = f"{refused.topic}-{refused.partition}"
    judge = verdict.policy or "the record batch reader"
    if refused.is_observed:
        what = f"observed: {what.strip()}"
    error = f"by {judge}" if verdict.outcome in STORED else f"error {verdict.code} by {judge}"
    lines = [f"{what} {place} for {refused.client_id}: {error}"]
    lines += (
        f"    record {error.index}: {error.message}"
        for error in verdict.record_errors[:RECORDS_SHOWN]
    )
    if len(verdict.record_errors) > RECORDS_SHOWN:
        lines.append(f"    and {len(verdict.record_errors) - RECORDS_SHOWN} more records")
    if not verdict.record_errors:
        lines.append(f"    {verdict.message}")
    if verdict.detail:
        lines += (f"    {line}" for line in verdict.detail.split("\n"))
    return [printable(line) for line in lines]
