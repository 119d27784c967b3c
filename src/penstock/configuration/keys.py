"""Every key of the configuration file: its type, its default, its meaning.

An attribute has the name of its key with underscores for dots. `docs/configuration.md` is
generated from this model (`make docs`), and a test compares them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from penstock.configuration import values
from penstock.configuration.values import Address, ListenerAddress

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

UPSTREAM, LISTENERS, POLICIES, TOPICS, LIMITS, OPERATIONS = (
    "Cluster",
    "Listeners",
    "Policies for records",
    "Topics",
    "Limits",
    "Operations",
)

Text = Annotated[str, BeforeValidator(values.text)]
TopicName = Annotated[str, BeforeValidator(values.topic_name)]
OptionalTopicName = Annotated[str, BeforeValidator(values.optional_topic_name)]
OptionalText = Annotated[str, BeforeValidator(values.optional_text)]
Boolean = Annotated[bool, BeforeValidator(values.boolean)]
PositiveInt32 = Annotated[int, BeforeValidator(values.whole_number(1, 2**31 - 1))]
PositiveInt64 = Annotated[int, BeforeValidator(values.whole_number(1, 2**63 - 1))]
NonNegativeInt32 = Annotated[int, BeforeValidator(values.whole_number(0, 2**31 - 1))]
NonNegativeInt64 = Annotated[int, BeforeValidator(values.whole_number(0, 2**63 - 1))]
BytesOrDefault = Annotated[int, BeforeValidator(values.whole_number(-1, 2**63 - 1))]
WorkerCount = Annotated[int, BeforeValidator(values.whole_number(1, 1024))]
ErrorCode = Annotated[int, BeforeValidator(values.error_code)]
ClassName = Annotated[str, BeforeValidator(values.class_name)]
ClassNames = Annotated[tuple[str, ...], BeforeValidator(values.class_names)]
ClassPatterns = Annotated[tuple[str, ...], BeforeValidator(values.class_patterns)]
PolicyNames = Annotated[tuple[str, ...], BeforeValidator(values.policy_names)]
KeyPatterns = Annotated[tuple[str, ...], BeforeValidator(values.key_patterns)]
Paths = Annotated[tuple[str, ...], BeforeValidator(values.paths)]
Servers = Annotated[tuple[Address, ...], BeforeValidator(values.servers)]
MetricsAddress = Annotated[Address, BeforeValidator(values.local_address)]
Peers = Annotated[tuple[Address, ...], BeforeValidator(values.peers)]
ClientListener = Annotated[ListenerAddress, BeforeValidator(values.listener)]
PortRange = Annotated[range, BeforeValidator(values.port_range)]
SecurityProtocol = Annotated[
    Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
    BeforeValidator(values.one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
]
RejectionScope = Annotated[
    Literal["partition", "request"], BeforeValidator(values.one_of("partition", "request"))
]
AutoCreateErrorCode = Annotated[Literal["3", "44"], BeforeValidator(values.one_of("3", "44"))]
IdempotenceMode = Annotated[
    Literal["translate", "strip", "refuse"],
    BeforeValidator(values.one_of("translate", "strip", "refuse")),
]
BrokerAddresses = Annotated[Literal["ports", "sni"], BeforeValidator(values.one_of("ports", "sni"))]
Port = Annotated[int, BeforeValidator(values.whole_number(1, 65535))]


def key(
    section: str,
    *,
    meaning: str,
    default: Any = ...,
    shown_default: str | None = None,
    name: str | None = None,
    reloaded: bool = True,
) -> Any:
    """Declare a key.

    Args:
        section: Its heading in the reference.
        meaning: Some sentences for the reference.
        default: Its value where the file does not have it; without a default it is required.
        shown_default: The text of the reference for a computed default.
        name: As it is written in the file, where the attribute has another name.
        reloaded: Whether a change takes effect when the file is read again (SIGHUP); otherwise
            it does at a restart.
    """
    more: dict[str, Any] = {
        "section": section,
        "shown_default": shown_default,
        "reloaded": reloaded,
    }
    return Field(default, alias=name, description=meaning, json_schema_extra=more)


def extra(field: FieldInfo) -> dict[str, Any]:
    """Return what `key` knows of a field besides what pydantic has a place for."""
    schema_extra = field.json_schema_extra
    assert isinstance(schema_extra, dict)
    return schema_extra


class Keys(BaseModel):
    """The values of a configuration file."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=lambda name: name.replace("_", "."),
        arbitrary_types_allowed=True,
        defer_build=True,
    )

    upstream_servers: Servers = key(
        UPSTREAM,
        reloaded=False,
        name="upstream.bootstrap.servers",
        meaning="The cluster's bootstrap addresses, `host:port`, separated by commas.",
    )
    upstream_security_protocol: SecurityProtocol = key(
        UPSTREAM,
        reloaded=False,
        default="PLAINTEXT",
        meaning=(
            "How the gateway connects to the cluster. Every key of a Kafka client can follow "
            "the prefix `upstream.` ([the list](#keys-of-kafkas-clients-after-upstream)). "
            "`upstream.ssl.*` (PEM files) applies to all connections to the cluster. "
            "`upstream.sasl.*` is the gateway's principal, which looks up the brokers' "
            "addresses. Clients authenticate at the cluster through the gateway."
        ),
    )
    listener: ClientListener = key(
        LISTENERS,
        reloaded=False,
        default=ListenerAddress(tls=False, address=Address("127.0.0.1", 9192)),
        name="listeners",
        meaning=(
            "The bootstrap address of clients, in Kafka's syntax. With `SSL` or `SASL_SSL`, the "
            "`ssl.*` keys of a broker apply (PEM: `ssl.keystore.location`, `ssl.key.password`, "
            "`ssl.truststore.location`, `ssl.client.auth`, `ssl.enabled.protocols`, "
            "`ssl.cipher.suites`). `SASL_` has no effect: the cluster decides whether clients use "
            "SASL. `PLAINTEXT://:9092` and `[::]` accept IPv4 and IPv6. "
            "Port 0 selects a free port, which the `ready` line shows."
        ),
    )
    advertised_host: Text | None = key(
        LISTENERS,
        reloaded=False,
        default=None,
        shown_default="the listener's host",
        meaning=("The host name given to clients. Required if the listener's host is a wildcard."),
    )
    broker_addresses: BrokerAddresses = key(
        LISTENERS,
        reloaded=False,
        default="ports",
        meaning=(
            "How clients reach each broker. `ports`: each broker has its own port. `sni`: all "
            "brokers share [one port](operations.md#one-port), and the name in the TLS handshake "
            "chooses the broker, so `listeners` must be `SSL` or `SASL_SSL`."
        ),
    )
    advertised_port: Port | None = key(
        LISTENERS,
        reloaded=False,
        default=None,
        shown_default="the listener's port",
        meaning=(
            "With `broker.addresses=sni`: the port given to clients, if the load balancer or "
            "ingress in front has another port than the listener."
        ),
    )
    listener_proxy_protocol: Boolean = key(
        LISTENERS,
        reloaded=False,
        default=False,
        meaning=(
            "Whether every connection begins with a header of the PROXY protocol, version 2, "
            "with the client's address. Let only the load balancer reach the port. [Behind a "
            "load balancer](operations.md#behind-a-load-balancer)"
        ),
    )
    broker_ports: PortRange | None = key(
        LISTENERS,
        reloaded=False,
        default=None,
        shown_default="the 100 ports after the listener's",
        meaning=(
            "`FIRST-LAST`. The broker with node id N is reached at FIRST + N - `broker.ids.first`."
        ),
    )
    broker_ids_first: NonNegativeInt32 = key(
        LISTENERS,
        reloaded=False,
        default=0,
        meaning="The node id of the first of `broker.ports`.",
    )
    record_validator_classes: ClassNames = key(
        POLICIES,
        default=(),
        meaning=(
            "KIP-729: `BrokerRecordValidator` classes, separated by commas. They judge "
            "every record of every topic, in this order."
        ),
    )
    record_validation_policy_class_name: ClassName | None = key(
        POLICIES,
        default=None,
        meaning=(
            "KIP-940: the `RecordValidationPolicy` for topics that have a "
            "`record.validation.policy`."
        ),
    )
    record_validation_policy_class_path: Paths = key(
        POLICIES,
        default=(),
        meaning=(
            "Folders in which Penstock first looks for the class of KIP-940 and its imports, "
            f"separated by `{os.pathsep}`. Other classes do not see these folders."
        ),
    )
    policy_names: PolicyNames = key(
        POLICIES,
        name="policies",
        default=(),
        meaning=(
            "Names of policies, separated by commas. `policies.<name>.type` is a class or the "
            "short name of a policy, `policies.<name>.<key>` its key. Topics name their policies "
            "in `penstock.policies`. [Named policies](built-in.md#named-policies)"
        ),
    )
    policy_workers: WorkerCount = key(
        POLICIES,
        default=max(1, (os.cpu_count() or 2) - 1),
        shown_default="cores - 1, at least 1",
        meaning=(
            "Processes that run policies. While slow policies block some of them, others start "
            "for the waiting batches, up to twice this number."
        ),
    )
    policy_timeout_ms: PositiveInt32 = key(
        POLICIES,
        default=5000,
        meaning=(
            "Deadline for one batch in all its policies together, without interceptors. At the "
            "deadline, the worker is killed and the batch gets -1. `configure()` has at least 30 s."
        ),
    )
    policy_preparation_timeout_ms: PositiveInt32 = key(
        POLICIES,
        default=10_000,
        meaning=(
            "Deadline for `prepare_batch()` of a KIP-940 policy or an interceptor, for one "
            "batch, and for `load_topic()`, for one topic. At the deadline, the worker is killed, "
            "and the batch gets 7 REQUEST_TIMED_OUT, which clients retry."
        ),
    )
    policy_worker_memory_max_bytes: NonNegativeInt64 = key(
        POLICIES,
        default=2 * 2**30,
        meaning=(
            "Address space that a worker can use. Above it, the policy gets a MemoryError "
            "and its batch gets -1. 0: no limit."
        ),
    )
    produce_rejection_scope: RejectionScope = key(
        POLICIES,
        default="partition",
        meaning=(
            "`partition`: only the partition with the bad record is refused. `request`: all "
            "partitions of a request are refused if one is."
        ),
    )
    socket_request_max_bytes: PositiveInt32 = key(
        LIMITS,
        reloaded=False,
        default=104857600,
        meaning="The largest request. A larger one closes the connection.",
    )
    socket_request_min_bytes_per_second: NonNegativeInt32 = key(
        LIMITS,
        reloaded=False,
        default=4096,
        meaning=(
            "The least rate of a request, over 10 s in which the gateway reads it. A slower client "
            "is closed. 0: none."
        ),
    )
    queued_max_request_bytes: BytesOrDefault = key(
        LIMITS,
        reloaded=False,
        default=-1,
        shown_default="-1: a quarter of the memory of the machine or the container, 1 GiB at most",
        meaning=(
            "Memory for all clients together: requests, and responses that clients do not read. "
            "At the limit, clients that hold more than 64 KiB wait."
        ),
    )
    sasl_server_max_receive_size: PositiveInt32 = key(
        LIMITS,
        reloaded=False,
        default=524288,
        meaning=(
            "The largest request before a login, if the cluster requires one. A larger one "
            "closes the connection."
        ),
    )
    policy_inline_max_bytes: NonNegativeInt32 = key(
        POLICIES,
        default=32768,
        meaning=(
            "The largest batch, decompressed, that some built-in policies accept [without a "
            "worker](built-in.md#small-batches); in native threads 16 MiB. 0: workers "
            "judge all batches."
        ),
    )
    decompressed_batch_max_bytes: PositiveInt32 = key(
        LIMITS,
        default=67108864,
        meaning="The largest batch after decompression. A larger batch is refused.",
    )
    decompressed_batch_max_records: PositiveInt32 = key(
        LIMITS,
        default=500000,
        meaning=("The most records in a batch. A batch with more is refused."),
    )
    connections_max_idle_ms: PositiveInt64 = key(
        LIMITS,
        reloaded=False,
        default=600000,
        meaning="A connection without traffic for this time is closed.",
    )
    connections_max_age_ms: NonNegativeInt64 = key(
        LIMITS,
        reloaded=False,
        default=0,
        meaning=(
            "A connection of about this age (±10%) is closed between two requests, so that new "
            "gateways get clients. A busy one stops being read, and gets its responses first. "
            "Requests with `acks=0` on their way are lost. 0: never."
        ),
    )
    max_connections: PositiveInt32 = key(
        LIMITS,
        reloaded=False,
        default=2147483647,
        meaning=(
            "Connections of clients at a time. Further connections wait until another closes."
        ),
    )
    max_connections_per_ip: PositiveInt32 = key(
        LIMITS,
        reloaded=False,
        default=2147483647,
        meaning="Connections from one address. Further connections are closed immediately.",
    )
    max_connection_creation_rate: PositiveInt32 = key(
        LIMITS,
        reloaded=False,
        default=2147483647,
        meaning="New connections a second. Others wait.",
    )
    create_topic_policy_class_name: ClassName | None = key(
        TOPICS,
        default=None,
        meaning=(
            "KIP-108: the `CreateTopicPolicy` for every topic that is created through the "
            "gateway, including automatic creation."
        ),
    )
    create_topic_policy_create_partitions: Boolean = key(
        TOPICS,
        default=True,
        meaning=(
            "Whether the `CreateTopicPolicy` also runs when partitions are added to a topic. "
            "Without it, clients can exceed a limit on partitions in two steps."
        ),
    )
    create_topic_policy_auto_create_error_code: AutoCreateErrorCode = key(
        TOPICS,
        default="3",
        meaning=(
            "The error code for an unknown topic whose automatic creation was refused: 3, as a "
            "KRaft cluster answers, or 44. [What clients "
            "do](topics.md#other-ways-to-create-topics): they get no reason."
        ),
    )
    alter_config_policy_class_name: ClassName | None = key(
        TOPICS,
        default=None,
        meaning=(
            "KIP-133: the `AlterConfigPolicy` for config changes and the configs of new topics."
        ),
    )
    produce_request_interceptors: ClassNames = key(
        POLICIES,
        default=(),
        meaning=(
            "KIP-905: `ProduceRequestInterceptor` classes in order. They run before all other "
            "policies."
        ),
    )
    produce_request_interceptors_timeout_ms: PositiveInt32 = key(
        POLICIES,
        default=5000,
        meaning=(
            "KIP-905: deadline for one attempt at one batch. The client gets a response at the "
            "latest after three quarters of its request timeout."
        ),
    )
    produce_request_interceptors_max_timeout_retries: NonNegativeInt32 = key(
        POLICIES,
        default=0,
        meaning=(
            "KIP-905: further attempts after a deadline. Then the batch gets 7 REQUEST_TIMED_OUT."
        ),
    )
    produce_request_interceptors_failed_error_code: ErrorCode = key(
        POLICIES,
        default=-1,
        meaning=(
            "The error code for a batch on which an interceptor failed. KIP-905's "
            "number now has another meaning in Kafka."
        ),
    )
    produce_request_interceptors_idempotence: IdempotenceMode = key(
        POLICIES,
        default="translate",
        meaning=(
            "[Idempotent producers](guarantees.md#idempotent-producers) whose records are "
            "dropped. `translate`: the gateway changes their sequence numbers. `strip`: batches "
            "are stored without producer id and sequence number, unless they are "
            "transactional. `refuse`: a batch from which a record is dropped is refused with 87."
        ),
    )
    penstock_quarantine_internal_topics: Boolean = key(
        POLICIES,
        default=False,
        meaning=(
            "Whether records of "
            "[frameworks' own topics](troubleshooting.md#topics-of-frameworks) may be "
            "quarantined, or dropped by interceptors, where only a pattern with a wildcard gives "
            "the topic policies. Otherwise, the batch is refused with 87."
        ),
    )
    produce_request_interceptors_state_topic: TopicName = key(
        POLICIES,
        reloaded=False,
        default="__penstock_producer_state",
        meaning=(
            "The compacted topic that keeps the sequence numbers of producers whose records were "
            "dropped or quarantined. All gateways of a cluster use the same topic. It is used "
            "once records may be dropped (`drops_records`) or quarantined, or if it exists."
        ),
    )
    topic_settings_topic: OptionalTopicName = key(
        TOPICS,
        reloaded=False,
        default="__penstock_topic_settings",
        meaning=(
            "The compacted topic that keeps topic level keys set through admin tools. All "
            "gateways of a cluster use the same topic. It is used if this file has policies "
            "that a topic level key can enable, or sets this key. Empty: the cluster refuses "
            "the keys."
        ),
    )
    topic_settings_keys_allowed: KeyPatterns = key(
        TOPICS,
        default=("*",),
        meaning=(
            "Topic level keys that admin tools can set on a topic, separated by commas: by "
            "name, or with `*` for any characters. Empty: none. [Restrict the "
            "keys](topics.md#restrict-the-keys)"
        ),
    )
    redrive_places_topic: TopicName = key(
        TOPICS,
        default="__penstock_places",
        meaning=(
            "The compacted topic that keeps the [positions](pipeline.md#second-runs) of "
            "`split`, `redact` and `redrive` for longer than committed offsets last."
        ),
    )
    records_policy_class_names_allowed: ClassPatterns = key(
        TOPICS,
        default=(),
        meaning=(
            "Classes that a topic's own `records.policy.class.name` can name and load, separated "
            "by commas: by name, or `package.*`. Classes that this file names for a topic are "
            "always allowed."
        ),
    )
    metrics_listener: MetricsAddress | None = key(
        OPERATIONS,
        reloaded=False,
        default=None,
        meaning=(
            "`HOST:PORT`, or `:PORT` for 127.0.0.1: `/metrics` in Prometheus' text format, "
            "`/livez`, `/readyz`, and the [console](monitoring.md#console) at `/`. Without it, "
            "nothing is counted. Port 0 selects a free port, which the log shows."
        ),
    )
    metrics_listener_token: Text | None = key(
        OPERATIONS,
        reloaded=False,
        default=None,
        meaning=(
            "The token that requests for `/metrics` send as `Authorization: Bearer`, and that "
            "users enter to open the console. Required if `metrics.listener` is not a loopback "
            "address. `/livez` and `/readyz` need no token."
        ),
    )
    console_peers: Peers = key(
        OPERATIONS,
        reloaded=False,
        default=(),
        meaning=(
            "`HOST:PORT,...`: `metrics.listener` of up to 20 other gateways, which the console "
            "shows, too. [Several gateways](monitoring.md#several-gateways)"
        ),
    )
    audit_topic: OptionalTopicName = key(
        OPERATIONS,
        reloaded=False,
        default="",
        meaning=(
            "The topic with a record for each refusal, without payload. Clients cannot write to "
            "it through the gateway. [The audit trail](monitoring.md#audit-trail)"
        ),
    )
    audit_file: OptionalText = key(
        OPERATIONS,
        reloaded=False,
        default="",
        meaning=(
            "The file with a line of JSON for each refusal, without payload, instead of "
            "`audit.topic`. After a rename, the gateway opens it again."
        ),
    )
