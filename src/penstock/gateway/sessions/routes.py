"""The routing table: the handling of each of Kafka's APIs.

A row names the versions that are served, which requests are held and by which part, and the change
of the broker's response. An API without a row passes through unchanged, in every version.
ApiVersions responses are limited to the versions in this table. A request outside of them closes
the connection, as a broker does with a version that it does not support.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.topic_keys import RECORDS_POLICY
from penstock.gateway.admin.alter_configs import alter_configs
from penstock.gateway.admin.create_partitions import create_partitions
from penstock.gateway.admin.create_topics import create_topics
from penstock.gateway.admin.delete_records import delete_records
from penstock.gateway.admin.delete_topics import delete_topics
from penstock.gateway.admin.describe_configs import describe_configs
from penstock.gateway.admin.find_coordinator import find_coordinator
from penstock.gateway.admin.metadata import metadata
from penstock.gateway.admin.streams_group_heartbeat import streams_group_heartbeat
from penstock.gateway.produce.end_txn import end_txn
from penstock.gateway.produce.forwarded_at_once import is_forwarded_at_once, known_topics
from penstock.gateway.produce.produce_exchange import ProduceExchange
from penstock.gateway.produce.retried_batches import read_retried
from penstock.gateway.produce.single_batch import single_batch
from penstock.gateway.sessions.handler_exchange import HandlerExchange
from penstock.kafka.wire import api_versions
from penstock.kafka.wire.addresses import holds_addresses, replace_in_slices
from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.requests import produce, transactions
from penstock.kafka.wire.requests.produce_response import names_no_leaders
from penstock.kafka.wire.requests.share_fetch import ShareFetchRewriter
from penstock.kafka.wire.schemas import known_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.gateway.context.exchange import Buffers, Exchange, Streamed, Transform
    from penstock.gateway.produce.gateway import RoutingGateway
    from penstock.gateway.sessions.gateway import RequestConnection
    from penstock.gateway.sessions.handler_exchange import Handler
    from penstock.kafka.wire.requests.share_fetch import Rewriter
    from penstock.kafka.wire.slices import Slices

    OpenExchange = Callable[[RequestConnection, Streamed, bytes], Exchange | Slices[Exchange]]
    """Makes the exchange of a request that has been received completely, at once or in slices."""
    Hold = Callable[["RoutingGateway", int], OpenExchange | None]
    """Returns how a request of a version is held; None to stream it."""
    TransformResponse = Callable[[RequestConnection, int], Transform | None]
    """Returns how the response of a version is changed; None to stream it."""
    Condition = Callable[["RoutingGateway"], bool]
    ReadRetried = Callable[[bytes, int], Slices[Sequence[tuple[bytes, int]]]]
    """Reads in the response to a request of a version whose batches the client retries: the topics,
    as in the request, and the partitions."""

PRODUCE, FETCH, METADATA, FIND_COORDINATOR = produce.API_KEY, 1, 3, 10
SASL_HANDSHAKE, API_VERSIONS = 17, 18
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, END_TXN = 19, 20, 21, transactions.END_TXN
DESCRIBE_CONFIGS, ALTER_CONFIGS, SASL_AUTHENTICATE, CREATE_PARTITIONS = 32, 33, 36, 37
INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER = 44, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE, STREAMS_GROUP_HEARTBEAT = 78, 79, 88


_READ_AT_ONCE_BYTES: Final = 16 * 1024
"""A Produce request of no more bytes has few entries."""


# Which requests are held, and by what.


def stream(_gateway: RoutingGateway, _version: int) -> None:
    """Stream every request to the broker as it is received."""


def handled_by(handler: Handler, *, when: Condition) -> Hold:
    """Hold requests for a handler if a condition is met, and stream them otherwise."""
    open_exchange: OpenExchange = partial(_open_handler_exchange, handler)
    return lambda gateway, _version: open_exchange if when(gateway) else None


def _open_handler_exchange(
    handler: Handler, connection: RequestConnection, received: Streamed, frame: bytes
) -> Exchange:
    return HandlerExchange(frame, received, handler, connection)


def hold_produce(gateway: RoutingGateway, version: int) -> OpenExchange | None:
    """Hold Produce requests if any topic has a policy, had an interceptor, or is for gateways.

    Where gateways share the state of producers, there may be some in the next moment: then native
    threads have to know the topics of a request.
    """
    has_policies = not gateway.policies.plan.is_empty or gateway.topic_configs.are_stored
    if not has_policies and not gateway.producers and not gateway.audit_topic:
        is_shared = gateway.shared_producers is not None
        return _open_produce if is_shared and version >= produce.FIRST_VERSION else None
    if version < produce.FIRST_VERSION:
        # Kafka 4 supports none of these; an older broker would store them without validation.
        raise WireError(f"Produce version {version}")
    return _open_produce


def _open_produce(
    connection: RequestConnection, received: Streamed, frame: bytes
) -> Exchange | Slices[Exchange]:
    if len(frame) > _READ_AT_ONCE_BYTES:
        return _read_and_open_produce(connection, received, frame)
    return _produce_exchange(connection, received, connection.produce_requests.read(frame))


def _read_and_open_produce(
    connection: RequestConnection, received: Streamed, frame: bytes
) -> Slices[Exchange]:
    request = yield from connection.produce_requests.read_in_slices(frame)
    exchange = _produce_exchange(connection, received, request)
    if isinstance(exchange, ProduceExchange) and not connection.may_change_policies:
        yield from exchange.prepare()
    return exchange


def _produce_exchange(
    connection: RequestConnection, received: Streamed, request: produce.ProduceRequest
) -> Exchange:
    early_outcomes = connection.take_early_outcomes()
    judged_topics = known_topics(request, connection)
    if judged_topics is None or early_outcomes or connection.follows_retried:
        return ProduceExchange(request, connection, received, early_outcomes)
    if is_forwarded_at_once(judged_topics, request, connection):
        received.pieces = [request.frame]
        received.expects_response = request.acks != 0
        received.was_held = True
        return received
    single = single_batch(judged_topics, request, connection, received)
    return single or ProduceExchange(request, connection, received)


def hold_end_txn(gateway: RoutingGateway, version: int) -> OpenExchange | None:
    """Hold EndTxn requests if there are interceptors, or there were when a record was dropped."""
    if version < transactions.EPOCH_PER_TRANSACTION_FROM:
        return None
    if not gateway.policies.plan.has_interceptors and not gateway.producers:
        return None
    return partial(_open_handler_exchange, end_txn)


def hold_sasl_handshake(_gateway: RoutingGateway, _version: int) -> OpenExchange:
    """Hold SaslHandshake requests until the SASL mechanism has been read."""
    return _open_handshake


def _open_handshake(connection: RequestConnection, received: Streamed, frame: bytes) -> Exchange:
    connection.authentication.handshake_sent(frame)
    received.pieces = [frame]
    return received


def hold_sasl_authenticate(_gateway: RoutingGateway, _version: int) -> OpenExchange:
    """Hold SaslAuthenticate requests until the principal has been read."""
    return _open_authenticate


def _open_authenticate(connection: RequestConnection, received: Streamed, frame: bytes) -> Exchange:
    connection.authentication.message_sent(frame)
    received.pieces = [frame]
    return received


def hold_api_versions(_gateway: RoutingGateway, version: int) -> OpenExchange | None:
    """Hold ApiVersions requests that may name the broker that the client meant (KIP-1242)."""
    return _open_api_versions if version >= api_versions.NAMES_BROKER_FROM else None


def _open_api_versions(connection: RequestConnection, received: Streamed, frame: bytes) -> Exchange:
    broker = api_versions.meant_broker(frame)
    if broker is None or _is_reached(broker, connection):
        received.pieces = [frame]  # a broker compares them, too, from Kafka 4.4 on
    else:
        received.response = [api_versions.rebootstrap_required(received.correlation_id)]
    return received


def _is_reached(broker: api_versions.MeantBroker, connection: RequestConnection) -> bool:
    """Whether the connection leads to a broker; the bootstrap address is that of no broker."""
    cluster_id = connection.gateway.cluster_id
    return broker.node == connection.node and broker.cluster_id == (cluster_id or broker.cluster_id)


def _open_unsupported_version(
    _connection: RequestConnection, received: Streamed, _frame: bytes
) -> Exchange:
    received.response = [api_versions.unsupported(received.correlation_id)]
    return received


def _keeps_topic_configs(gateway: RoutingGateway) -> bool:
    return gateway.topic_configs.are_stored


def _validates_creation(gateway: RoutingGateway) -> bool:
    return gateway.policies.topics.create_topic is not None


def _validates_configs(gateway: RoutingGateway) -> bool:
    """Whether configs are judged, or topics have policies that a config may go past (KIP-1191)."""
    policies = gateway.policies
    return (
        policies.topics.alter_config is not None
        or _keeps_topic_configs(gateway)
        or not policies.plan.is_empty
    )


def _validates_new_topics(gateway: RoutingGateway) -> bool:
    return _validates_creation(gateway) or _validates_configs(gateway)


def _validates_partitions(gateway: RoutingGateway) -> bool:
    policies = gateway.policies
    return _keeps_topic_configs(gateway) or (
        _validates_creation(gateway) and policies.topics.judges_partitions
    )


def _has_state_of_topics(gateway: RoutingGateway) -> bool:
    """Whether the gateway has configs, metadata or policy instances of single topics."""
    policies = gateway.policies
    return (
        _keeps_topic_configs(gateway)
        or policies.topics.needs_context
        or bool(policies.plan.names[RECORDS_POLICY])
    )


# The handling of a response.


def pass_through(_connection: RequestConnection, _version: int) -> None:
    """Stream every response to the client as it is received."""


def replace_addresses_of(api_key: int, *, all_brokers: bool = False) -> TransformResponse:
    """Replace the addresses of brokers by those of the gateway.

    Args:
        api_key: The API of the response.
        all_brokers: Whether the response lists all brokers, so that new brokers get a port.
    """
    versions = known_versions(api_key)

    def respond(connection: RequestConnection, version: int) -> Transform | None:
        if version not in versions or not holds_addresses(api_key, version):
            return None
        gateway = connection.gateway

        def transform(frame: bytes) -> Slices[Buffers]:
            addresses = gateway.addresses
            replace = addresses.learn_for_clients if all_brokers else addresses.for_clients
            return replace_in_slices(frame, api_key, version, replace)

        return transform

    return respond


def replace_leaders(connection: RequestConnection, version: int) -> Transform | None:
    """Replace the addresses of new leaders in a Produce response; few have any (KIP-951)."""
    replace = _replace_leaders(connection, version)
    if replace is None:
        return None

    def transform(frame: bytes) -> Buffers | Slices[Buffers]:
        return [frame] if names_no_leaders(frame, version) else replace(frame)

    return transform


_replace_leaders: Final = replace_addresses_of(PRODUCE, all_brokers=True)


def limit_versions(_connection: RequestConnection, version: int) -> Transform:
    """Limit an ApiVersions response to the versions that are served here."""
    return lambda frame: api_versions.narrow(frame, version, VERSIONS)


def record_authentication(connection: RequestConnection, version: int) -> Transform:
    """Record whether the broker accepted the client's credentials."""

    def transform(frame: bytes) -> list[bytes | memoryview]:
        connection.authentication.message_answered(frame, version)
        return [frame]

    return transform


class Route(NamedTuple):
    """A row of the routing table.

    Attributes:
        versions: The first and the last version that are served; all versions by default.
        hold: Which requests are held, and by which part.
        respond: The change of the broker's response.
        read_acks: For an API whose requests may have no response: reads `acks` from the first
            bytes of a streamed request, and returns None if more bytes are needed.
        before_login: Whether it is served before the client has authenticated.
        rewrite: Changes responses that are streamed; None to leave them unchanged.
        read_retried: Reads in a response, and its version, whose batches the client retries; None
            if requests that are held behind it do not depend on that.
        unsupported_version: Responds to versions later than those served; by default they
            close the connection.
    """

    api_key: int
    versions: tuple[int, int] = (0, 2**15 - 1)
    hold: Hold = stream
    respond: TransformResponse = pass_through
    read_acks: Callable[[bytes], int | None] | None = None
    before_login: bool = False
    unsupported_version: OpenExchange | None = None
    rewrite: Callable[[int], Rewriter] | None = None
    read_retried: ReadRetried | None = None


def _all(api_key: int, first: int | None = None) -> tuple[int, int]:
    """Return the range of versions whose schemas are known."""
    versions = known_versions(api_key)
    return versions[0] if first is None else first, versions[-1]


ROUTES: Final = (
    # Versions 0 to 2 stay announced: brokers announce them although they no longer serve them,
    # because librdkafka chooses the compression by them (KAFKA-18659).
    Route(PRODUCE, (0, produce.LAST_VERSION), hold_produce, replace_leaders, produce.read_acks,
          read_retried=read_retried),
    # From version 16 on a response may hold the addresses of leaders, after the records (KIP-951).
    # The length of the frame comes first, so replacing them would mean to buffer every fetch.
    # Clients lose a hint: they find a new leader by a Metadata request, as before.
    Route(FETCH, (0, 15)),
    Route(METADATA, _all(METADATA), handled_by(metadata, when=_validates_creation),
          replace_addresses_of(METADATA, all_brokers=True)),
    Route(FIND_COORDINATOR, _all(FIND_COORDINATOR),
          handled_by(find_coordinator, when=_validates_creation),
          replace_addresses_of(FIND_COORDINATOR)),
    # After version 0 the client sends tokens without a header, which look like requests.
    Route(SASL_HANDSHAKE, _all(SASL_HANDSHAKE, first=1), hold_sasl_handshake, before_login=True),
    Route(API_VERSIONS, (0, api_versions.LAST_VERSION), hold_api_versions, limit_versions,
          before_login=True, unsupported_version=_open_unsupported_version),
    Route(CREATE_TOPICS, _all(CREATE_TOPICS),
          handled_by(create_topics, when=_validates_new_topics)),
    Route(DELETE_TOPICS, _all(DELETE_TOPICS),
          handled_by(delete_topics, when=_has_state_of_topics)),
    Route(DELETE_RECORDS, _all(DELETE_RECORDS),
          handled_by(delete_records, when=_keeps_topic_configs)),
    Route(END_TXN, _all(END_TXN), hold_end_txn),
    Route(DESCRIBE_CONFIGS, _all(DESCRIBE_CONFIGS),
          handled_by(describe_configs, when=_keeps_topic_configs)),
    Route(ALTER_CONFIGS, _all(ALTER_CONFIGS), handled_by(alter_configs, when=_validates_configs)),
    Route(SASL_AUTHENTICATE, _all(SASL_AUTHENTICATE), hold_sasl_authenticate,
          record_authentication, before_login=True),
    Route(CREATE_PARTITIONS, _all(CREATE_PARTITIONS),
          handled_by(create_partitions, when=_validates_partitions)),
    Route(INCREMENTAL_ALTER_CONFIGS, _all(INCREMENTAL_ALTER_CONFIGS),
          handled_by(alter_configs, when=_validates_configs)),
    Route(DESCRIBE_CLUSTER, _all(DESCRIBE_CLUSTER),
          respond=replace_addresses_of(DESCRIBE_CLUSTER)),
    # Its records may be large, so it is streamed, too. It has no version without addresses.
    Route(SHARE_FETCH, _all(SHARE_FETCH), rewrite=lambda _version: ShareFetchRewriter()),
    Route(SHARE_ACKNOWLEDGE, _all(SHARE_ACKNOWLEDGE),
          respond=replace_addresses_of(SHARE_ACKNOWLEDGE)),
    Route(STREAMS_GROUP_HEARTBEAT, _all(STREAMS_GROUP_HEARTBEAT),
          handled_by(streams_group_heartbeat, when=_validates_creation)),
)  # fmt: skip

_BY_API_KEY: Final = {row.api_key: row for row in ROUTES}
_DEFAULT: Final = Route(-1)
VERSIONS: Final = {row.api_key: row.versions for row in ROUTES if row.versions != _DEFAULT.versions}
"""The first and the last version that are served, by API key; of the others, all are."""


def route(api_key: int) -> Route:
    """Return the handling of the requests of an API."""
    return _BY_API_KEY.get(api_key, _DEFAULT)
