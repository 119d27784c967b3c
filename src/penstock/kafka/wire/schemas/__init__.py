"""Kafka's schemas, by API key and version: the protocol library's, and those that it lacks so far.

The library (`kio`) follows Kafka's releases later. The modules of this package with a version are
generated from Kafka's own descriptions, in the library's form
(`tests/kafka/wire/generated_schemas.py`). A version that the library has is removed here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kio import index
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kio.static.protocol import RequestPayload, ResponsePayload

ADDED: Final[Mapping[int, tuple[str, int]]] = {
    18: ("api_versions", 5),
    88: ("streams_group_heartbeat", 1),
}
"""The versions that the library lacks, of the APIs that are read here."""
API_NAMES: Final[Mapping[int, str]] = {
    **api_key_map,
    93: "streams_group_topology_description_update",
    94: "unregister_controller",
}
"""The names of all APIs of clients, by API key."""


def load_request_schema(api_key: int, version: int) -> type[RequestPayload]:
    """Return the type of a request.

    Raises:
        kio.index.KioIndexError: It is not known.
    """
    return _added(api_key, version, "Request") or index.load_request_schema(api_key, version)


def load_response_schema(api_key: int, version: int) -> type[ResponsePayload]:
    """Return the type of a response.

    Raises:
        kio.index.KioIndexError: It is not known.
    """
    return _added(api_key, version, "Response") or index.load_response_schema(api_key, version)


@cache
def known_versions(api_key: int) -> range:
    """Return the versions of an API whose schemas are known here."""
    versions = sorted(
        version
        for version, entities in schema_name_map[api_key_map[api_key]].items()
        if EntityType.response in entities
    )
    last = ADDED[api_key][1] if api_key in ADDED else versions[-1]
    return range(versions[0], last + 1)


@cache
def _added(api_key: int, version: int, kind: str) -> Any:
    name, added = ADDED.get(api_key, ("", None))
    if version != added:
        return None
    module = import_module(f"{__name__}.{name}_v{version}_{kind.lower()}")
    return getattr(module, "".join(map(str.capitalize, name.split("_"))) + kind)
