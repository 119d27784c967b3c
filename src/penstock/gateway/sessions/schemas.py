"""The schemas of the requests and responses that are read or changed: loaded before clients come.

A schema is loaded when it is used first. On the event loop that takes several
milliseconds for each version of an API, and a client chooses the versions.
"""

from __future__ import annotations

from penstock.gateway.sessions.routes import ROUTES, pass_through, stream
from penstock.kafka.wire.schemas import known_versions, load_request_schema, load_response_schema
from penstock.kafka.wire.structures import structure_of


def load_schemas() -> None:
    """Load the schemas of all APIs that are not only forwarded, in every version that is served."""
    for row in ROUTES:
        if row.hold is stream and row.respond is pass_through:
            continue
        first, last = row.versions
        for version in known_versions(row.api_key):
            if first <= version <= last:
                structure_of(load_request_schema(row.api_key, version))
                structure_of(load_response_schema(row.api_key, version))
