"""What `penstock --version` prints."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Final

from penstock import __version__
from penstock.gateway.lane.availability import NativeThreadsError, describe_lane
from penstock.gateway.sessions import routes

_SHOWN_APIS: Final = {
    "Produce": routes.PRODUCE,
    "Fetch": routes.FETCH,
    "Metadata": routes.METADATA,
    "ApiVersions": routes.API_VERSIONS,
}
"""The APIs that every client uses."""


def versions() -> list[str]:
    """Return the lines: Penstock, what it runs on and reads with, the Kafka protocol, PySpark."""
    ranges = {name: routes.VERSIONS[key] for name, key in _SHOWN_APIS.items()}
    served = ", ".join(f"{name} {first}-{last}" for name, (first, last) in ranges.items())
    lines = [
        f"penstock {__version__}",
        f"Python {platform.python_version()}",
        f"connections: {_connections()}",
        f"Kafka protocol: {served}",
    ]
    try:
        lines.append(f"PySpark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        lines.append("PySpark is not installed")
    return lines


def _connections() -> str:
    try:
        return describe_lane()
    except NativeThreadsError as error:
        return str(error)
