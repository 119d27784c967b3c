"""Who answers API key N: the one table of what is done with each of Kafka's APIs.

A row says which versions are served, when a request is held and by whom, and what is done with
the broker's response. An API without a row passes, in all versions, as the bytes it comes in.
ApiVersions' responses are narrowed to the versions here, and a request outside of them ends the
connection, as a broker ends it for a version that it does not serve.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.gateway.admin.alter_configs import alter_configs
from penstock.gateway.admin.create_partitions import create_partitions
from penstock.gateway.admin.create_topics import create_topics
from penstock.gateway.admin.delete_records import delete_records
from penstock.gateway.admin.delete_topics import delete_topics
from penstock.gateway.admin.describe_configs import describe_configs
from penstock.gateway.admin.end_txn import end_txn
from penstock.gateway.admin.exchange import AdminExchange
from penstock.gateway.admin.find_coordinator import find_coordinator
from penstock.gateway.admin.metadata import metadata
from penstock.gateway.admin.streams_group_heartbeat import streams_group_heartbeat
from penstock.gateway.produce.exchange import ProduceExchange
from penstock.wire import api_versions, produce, transactions
from penstock.wire.addresses import holds_addresses, known_versions, replace_addresses
from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.admin.context import Handler
    from penstock.gateway.exchange import Buffers, Connection, Exchange, Streamed, Transform
    from penstock.gateway.host import Host

    Open = Callable[[Connection, Streamed, bytes], Exchange]
    """Takes a request that is there as a whole; returns what is to be done with it."""
    Condition = Callable[[Host], bool]

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = 0, 1, 3, 10
SASL_HANDSHAKE, API_VERSIONS = 17, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, END_TXN = 19, 20, 21, 26
DESCRIBE_CONFIGS, ALTER_CONFIGS, SASL_AUTHENTICATE, CREATE_PARTITIONS = 32, 33, 36, 37
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 44, 55, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE, STREAMS_GROUP_HEARTBEAT = 78, 79, 88


# When a request is held, and by whom.


def streamed(_host: Host, _version: int) -> None:
    """Pass a request on as it comes."""


def held(handler: Handler, *, when: Condition) -> Callable[[Host, int], Open | None]:
    """Have requests answered by a handler, under a condition."""
    take: Open = partial(_take_admin, handler)
    return lambda host, _version: take if when(host) else None


def _take_admin(
    handler: Handler, _connection: Connection, arrived: Streamed, frame: bytes
) -> Exchange:
    return AdminExchange(frame, arrived, handler)


def judged(host: Host, version: int) -> Open | None:
    """Hold a Produce request where any topic has a policy, or had an interceptor."""
    if host.policies.plan.is_empty and not host.topic_configs.are_kept and not host.producers:
        return None
    if version < produce.FIRST_VERSION:
        # Kafka 4 serves none of them; an older broker would store them unjudged.
        raise WireError(f"Produce version {version}")
    return _take_produce


def _take_produce(connection: Connection, arrived: Streamed, frame: bytes) -> Exchange:
    return ProduceExchange(produce.read_request(frame), connection.host, arrived)


def completed(host: Host, version: int) -> Open | None:
    """Hold the end of a transaction of which every record may have been dropped."""
    if version != transactions.VERSION or not host.transactions:
        return None
    return partial(_take_admin, end_txn)


def handshaken(_host: Host, _version: int) -> Open:
    """Read along which SASL mechanism a client names."""
    return _take_handshake


def _take_handshake(connection: Connection, arrived: Streamed, frame: bytes) -> Exchange:
    connection.authentication.handshake_sent(frame)
    arrived.pieces = [frame]
    return arrived


def authenticated(_host: Host, _version: int) -> Open:
    """Read along who a client says it is."""
    return _take_authentication


def _take_authentication(connection: Connection, arrived: Streamed, frame: bytes) -> Exchange:
    connection.authentication.message_sent(frame)
    arrived.pieces = [frame]
    return arrived


def _take_unknown_version(_connection: Connection, arrived: Streamed, _frame: bytes) -> Exchange:
    arrived.response = [api_versions.unsupported(arrived.correlation_id)]
    return arrived


def _has_settings(host: Host) -> bool:
    return host.topic_configs.are_kept


def _judges_creation(host: Host) -> bool:
    return host.policies.topics.create_topic is not None


def _judges_configs(host: Host) -> bool:
    return host.policies.topics.alter_config is not None or _has_settings(host)


def _judges_new_topics(host: Host) -> bool:
    return _judges_creation(host) or _judges_configs(host)


def _judges_partitions(host: Host) -> bool:
    return _has_settings(host) or (_judges_creation(host) and host.policies.judges_partitions)


def _minds_deletion(host: Host) -> bool:
    policies = host.policies
    return (
        _has_settings(host)
        or policies.topics.needs_context
        or bool(policies.plan.names["records.policy.class.name"])
    )


# What is done with a response.


def unchanged(_connection: Connection, _version: int) -> None:
    """Pass a response on as it comes."""


def readdressed(
    api_key: int, *, learned: bool = False
) -> Callable[[Connection, int], Transform | None]:
    """Replace the addresses of brokers by the gateway's.

    Args:
        api_key: Of which API.
        learned: Whether the response tells of all brokers, also of new ones.
    """
    versions = frozenset(one for one in known_versions(api_key) if holds_addresses(api_key, one))

    def respond(connection: Connection, version: int) -> Transform | None:
        if version not in versions:
            return None
        host = connection.host

        def transform(frame: bytes) -> list[bytes | memoryview]:
            addresses = host.addresses
            replace = addresses.learn_for_clients if learned else addresses.for_clients
            return replace_addresses(frame, api_key, version, replace)

        return transform

    return respond


_readdressed_produce: Final = readdressed(PRODUCE, learned=True)


def produced(connection: Connection, version: int) -> Transform | None:
    """Replace the addresses of new leaders, of which few responses tell (KIP-951)."""
    readdress = _readdressed_produce(connection, version)
    if readdress is None:
        return None

    def transform(frame: bytes) -> Buffers:
        return [frame] if produce.names_no_leaders(frame, version) else readdress(frame)

    return transform


def narrowed(_connection: Connection, version: int) -> Transform:
    """Leave in an ApiVersions response the versions that are served here."""
    return lambda frame: api_versions.narrow(frame, version, VERSIONS)


def authentication_answered(connection: Connection, version: int) -> Transform:
    """Read along whether the broker accepts a client."""

    def transform(frame: bytes) -> list[bytes | memoryview]:
        connection.authentication.message_answered(frame, version)
        return [frame]

    return transform


class Route(NamedTuple):
    """A row of the table.

    Attributes:
        api_key: Kafka's number of the API.
        versions: The first and the last version that are served; all unless given.
        hold: When a request is held, and by whom.
        respond: What is done with the broker's response.
        read_acks: Reads from the beginning of a streamed request whether a response will come;
            None until enough of it is there. Without it, one always does.
        before_login: Whether it is served to a client that has yet to authenticate.
        unknown_version: Takes requests in versions later than those served.
    """

    api_key: int
    versions: tuple[int, int] = (0, 2**15 - 1)
    hold: Callable[[Host, int], Open | None] = streamed
    respond: Callable[[Connection, int], Transform | None] = unchanged
    read_acks: Callable[[bytes], int | None] | None = None
    before_login: bool = False
    unknown_version: Open | None = None


def _all(api_key: int, first: int | None = None) -> tuple[int, int]:
    """Return the versions whose schemas are known."""
    known = known_versions(api_key)
    return known[0] if first is None else first, known[-1]


ROUTES: Final = (
    # Versions 0 to 2 stay announced: brokers announce what they no longer serve there, because
    # librdkafka decides about compression by it (KAFKA-18659).
    Route(PRODUCE, (0, 13), judged, produced, produce.read_acks),
    # From 16 on a response may name leaders' addresses, behind the records (KIP-951); a
    # frame's length comes first, so replacing them would mean to hold every fetch in memory.
    # What clients lose is a hint: they learn of a new leader from Metadata, as before.
    Route(FETCH, (0, 15)),
    Route(METADATA, _all(METADATA), held(metadata, when=_judges_creation),
          readdressed(METADATA, learned=True)),
    Route(FIND_COORDINATOR, _all(FIND_COORDINATOR), held(find_coordinator, when=_judges_creation),
          readdressed(FIND_COORDINATOR)),
    # After version 0 come tokens without a header, which nothing tells from requests.
    Route(SASL_HANDSHAKE, _all(SASL_HANDSHAKE, first=1), handshaken, before_login=True),
    Route(API_VERSIONS, (0, api_versions.LAST_VERSION), streamed, narrowed, before_login=True,
          unknown_version=_take_unknown_version),
    Route(CREATE_TOPICS, _all(CREATE_TOPICS), held(create_topics, when=_judges_new_topics)),
    Route(DELETE_TOPICS, _all(DELETE_TOPICS), held(delete_topics, when=_minds_deletion)),
    Route(DELETE_RECORDS, _all(DELETE_RECORDS), held(delete_records, when=_has_settings)),
    Route(END_TXN, hold=completed),
    Route(DESCRIBE_CONFIGS, _all(DESCRIBE_CONFIGS), held(describe_configs, when=_has_settings)),
    Route(ALTER_CONFIGS, _all(ALTER_CONFIGS), held(alter_configs, when=_judges_configs)),
    Route(SASL_AUTHENTICATE, _all(SASL_AUTHENTICATE), authenticated, authentication_answered,
          before_login=True),
    Route(CREATE_PARTITIONS, _all(CREATE_PARTITIONS),
          held(create_partitions, when=_judges_partitions)),
    Route(INCREMENTAL_ALTER_CONFIGS, _all(INCREMENTAL_ALTER_CONFIGS),
          held(alter_configs, when=_judges_configs)),
    Route(DESCRIBE_QUORUM, _all(DESCRIBE_QUORUM), respond=readdressed(DESCRIBE_QUORUM)),
    Route(DESCRIBE_CLUSTER, _all(DESCRIBE_CLUSTER), respond=readdressed(DESCRIBE_CLUSTER)),
    Route(SHARE_FETCH, _all(SHARE_FETCH), respond=readdressed(SHARE_FETCH)),
    Route(SHARE_ACKNOWLEDGE, _all(SHARE_ACKNOWLEDGE), respond=readdressed(SHARE_ACKNOWLEDGE)),
    Route(STREAMS_GROUP_HEARTBEAT, _all(STREAMS_GROUP_HEARTBEAT),
          held(streams_group_heartbeat, when=_judges_creation)),
)  # fmt: skip

_BY_API_KEY: Final = {row.api_key: row for row in ROUTES}
_PASSED: Final = Route(-1)
VERSIONS: Final = {row.api_key: row.versions for row in ROUTES if row.versions != _PASSED.versions}
"""The first and the last version that are served, by API key; of others, all."""


def route(api_key: int) -> Route:
    """Return what is done with the requests of an API."""
    return _BY_API_KEY.get(api_key, _PASSED)
