"""Warns of keys in a file of which nothing reads the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.interfaces import (
    ALTER_CONFIG,
    CREATE_TOPIC,
    INTERCEPTORS,
    RECORDS,
    VALIDATION,
    VALIDATORS,
)
from penstock.configuration.policies import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OF_TOPICS: Final = (CREATE_TOPIC, ALTER_CONFIG)
_OF_RECORDS: Final = (VALIDATION, VALIDATORS, INTERCEPTORS, RECORDS)
# With these names, topics can configure a RecordsPolicy through Kafka's admin tools.
_ALLOWED: Final = "records.policy.class.names.allowed"
_READERS: Final = {
    "topic.rules.": _OF_TOPICS,
    "json.schema.": _OF_RECORDS,
    "schema.registry.": _OF_RECORDS,
    "schema.null.": _OF_RECORDS,
    "schema.protobuf.": _OF_RECORDS,
}
OF_BUILT_IN_POLICIES: Final = tuple(_READERS)
"""Prefixes of the built-in policies' keys, which the policies check."""


_NO_EFFECT: Final = "has no effect, because"
_PROTOCOL: Final = "upstream.security.protocol"
_MECHANISM: Final = "upstream.sasl.mechanism"


def unread_keys(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each key of a built-in policy that no policy of the file can read.

    Args:
        properties: The keys and values of a configuration file.
    """
    configured = {
        # A RecordsPolicy has a topic's name before its key.
        RECORDS if key.endswith(f".{RECORDS}") or key == _ALLOWED else key
        for key, value in properties.items()
        if value.strip()
    }
    for key in properties:
        for prefix, readers in _READERS.items():
            if key.startswith(prefix) and configured.isdisjoint((*readers, NAMES)):
                yield f"{key} {_NO_EFFECT} no policy reads it: set {' or '.join(readers)}"


def unread_security_keys(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each key of TLS or a login that the protocol of its connections lacks.

    Clients of Kafka ignore these silently, and connect without TLS.

    Args:
        properties: The keys and values of a configuration file.
    """
    protocol = properties.get(_PROTOCOL, "").strip().upper() or "PLAINTEXT"
    # A token's endpoint is trusted by the same keys.
    has_tokens = properties.get(_MECHANISM, "").strip().upper() == "OAUTHBEARER"
    listens_with_tls = "SSL://" in properties.get("listeners", "").upper()
    for key, value in properties.items():
        if not value.strip():
            continue
        if key.startswith("upstream.ssl.") and not (protocol.endswith("SSL") or has_tokens):
            yield f"{key} {_NO_EFFECT} {_PROTOCOL} is {protocol}: set SSL or SASL_SSL"
        elif key.startswith("upstream.sasl.") and not protocol.startswith("SASL_"):
            with_login = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT or SASL_SSL"
            yield f"{key} {_NO_EFFECT} {_PROTOCOL} is {protocol}: set {with_login}"
        elif key.startswith("ssl.") and not listens_with_tls:
            yield f"{key} {_NO_EFFECT} listeners has no TLS: begin it with SSL:// or SASL_SSL://"
