"""Events of the console, read from its stream."""

import json
from typing import Any


def events(data: bytes) -> list[tuple[str, Any]]:
    """Return the events that a browser reads from a stream."""
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found
