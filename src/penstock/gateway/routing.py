"""Which APIs are looked at, and in which versions. All others pass as the bytes they came in.

ApiVersions is narrowed to these ranges, and a request outside of them ends the connection,
as a broker ends it for a version that it does not serve.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.addresses import holds_addresses, known_versions

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, CREATE_PARTITIONS = 19, 20, 21, 37
DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
END_TXN = 26
STREAMS_GROUP_HEARTBEAT = 88
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
API_VERSIONS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 18, 55, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79

_ADDRESSED_APIS: Final = (
    METADATA,
    FIND_COORDINATOR,
    DESCRIBE_QUORUM,
    DESCRIBE_CLUSTER,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
)
"""With PRODUCE, the APIs in whose responses Kafka tells a client where a broker is."""

_JUDGED_APIS: Final = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DELETE_RECORDS,
    CREATE_PARTITIONS,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    STREAMS_GROUP_HEARTBEAT,
    SASL_AUTHENTICATE,
)
"""With PRODUCE, the APIs that policies and topic level keys may be concerned with."""

RANGES: Final[dict[int, tuple[int, int]]] = {
    **{
        key: (known_versions(key)[0], known_versions(key)[-1])
        for key in (*_ADDRESSED_APIS, *_JUDGED_APIS)
    },
    # 0 to 2 stay announced: brokers announce what they no longer serve there, because
    # librdkafka decides about compression by it (KAFKA-18659).
    PRODUCE: (0, 13),
    # From 16 on a response may name leaders' addresses, behind the records (KIP-951); a
    # frame's length comes first, so replacing them would mean to hold every fetch in memory.
    # What clients lose is a hint: they learn of a new leader from Metadata, as before.
    FETCH: (0, 15),
    # After version 0 come tokens without a header, which nothing tells from requests.
    SASL_HANDSHAKE: (1, known_versions(SASL_HANDSHAKE)[-1]),
    API_VERSIONS: (0, 4),
}

BEFORE_LOGIN: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
"""What a broker serves a client that has yet to authenticate (SaslServerAuthenticator.java)."""

_ADDRESSED: Final = frozenset(
    (api_key, version)
    for api_key in (PRODUCE, *_ADDRESSED_APIS)
    for version in known_versions(api_key)
    if holds_addresses(api_key, version)
)


def in_range(api_key: int, version: int) -> bool:
    """Tell whether a request may pass."""
    first, last = RANGES.get(api_key, (0, 2**15))
    return first <= version <= last


def may_hold_addresses(api_key: int, version: int) -> bool:
    """Tell whether a response has to be searched for brokers' addresses."""
    return (api_key, version) in _ADDRESSED
