"""A refusal, or a change of a plan, as a line of JSON; never with the content of records.

`docs/audit-record.schema.json` describes it; `docs/monitoring.md` explains the fields.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from penstock.engine.verdict import bounded

if TYPE_CHECKING:
    from penstock.engine.verdict import PolicyVerdict
    from penstock.gateway.observing.plan_watch import PlanChange
    from penstock.gateway.refusal_log import Refused

REASONS_MAX: Final = 5
MESSAGE_MAX_BYTES: Final = 512
NAME_MAX_BYTES: Final = 256
"""Longer than any topic's name. Client ids, principals and requested topic names come from clients
and may be longer."""
POLICY_MAX_BYTES: Final = 1024
"""There may be several classes."""
# ASCII only: U+2028 and others end a line for some readers.
_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def audit_record(
    refused: Refused, *, gateway: str, run: str, number: int, at_s: float, count: int = 1
) -> bytes:
    """Return the record of a refusal, without a line end.

    Args:
        gateway: The name of the gateway.
        run: Distinguishes this run of it from others.
        number: The number of the record in this run, from 1.
        at_s: When, in seconds since the epoch.
        count: How many refusals it stands for; the refusal is the last of them.
    """
    verdict = refused.verdict
    kind, name = refused.resource or (None, None)
    is_config = kind is not None
    topic = refused.topic if not is_config else name if kind == "TOPIC" else None
    return _encode(
        {
            "time": _time(at_s),
            "gateway": gateway,
            "run": run,
            "number": number,
            "outcome": verdict.outcome.value,
            "subject": _subject(refused),
            "principal": _name(refused.principal),
            "client_id": _name(refused.client_id),
            "address": refused.address,
            "topic": _name(topic),
            "partition": refused.partition,
            "records": refused.records,
            "count": count,
            "resource_type": kind,
            "resource_name": _name(name),
            "code": verdict.code,
            "policy": bounded(verdict.policy, POLICY_MAX_BYTES),
            "record_errors": len(verdict.record_errors),
            "plan": refused.plan or None,
            "former_plan": None,
            "cause": None,
            "reasons": _reasons(verdict),
        }
    ).encode("ascii")


def change_record(change: PlanChange, *, gateway: str, run: str, number: int, at_s: float) -> bytes:
    """Return the record of a topic's new plan; see `audit_record`."""
    old_plan, new_plan = change.before or None, change.after or None
    message = f"the plan changed from {old_plan or 'none'} to {new_plan or 'none'}: {change.cause}"
    return _encode(
        {
            "time": _time(at_s),
            "gateway": gateway,
            "run": run,
            "number": number,
            "outcome": "changed",
            "subject": "plan",
            "principal": _name(change.principal),
            "client_id": None,
            "address": None,
            "topic": _name(change.topic),
            "partition": None,
            "records": None,
            "count": 1,
            "resource_type": None,
            "resource_name": None,
            "code": 0,
            "policy": "",
            "record_errors": 0,
            "plan": new_plan,
            "former_plan": old_plan,
            "cause": change.cause,
            "reasons": [_reason(None, "", message)],
        }
    ).encode("ascii")


def _subject(refused: Refused) -> str:
    if refused.partition is not None:
        return "records"
    return "configs" if refused.resource is not None else "topic"


def _time(at_s: float) -> str:
    text = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _name(text: str | None) -> str | None:
    return bounded(text, NAME_MAX_BYTES)


def _reasons(verdict: PolicyVerdict) -> list[dict[str, Any]]:
    """Return the errors of the first bad records, or the error of the complete batch."""
    if not verdict.record_errors:
        return [_reason(None, verdict.policy, verdict.message)]
    first = verdict.record_errors[:REASONS_MAX]
    return [_reason(error.index, error.policy or verdict.policy, error.message) for error in first]


def _reason(record: int | None, policy: str, message: str | None) -> dict[str, Any]:
    return {
        "record": record,
        "policy": bounded(policy, POLICY_MAX_BYTES),
        "message": bounded(message, MESSAGE_MAX_BYTES),
    }
