"""The state of a record after a job."""

from typing import Any


def fate(row: Any) -> str:
    """Return the expected topic of a record."""
    starts = {b"drop": "dropped", b"fail": "failed", b"odd": "failed", b"bad": "refused"}
    value = row.value or b""
    return next((its for start, its in starts.items() if value.startswith(start)), "accepted")
