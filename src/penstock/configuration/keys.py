"""Every key of the configuration file: its default, how it is read, what it means.

`docs/configuration.md` is generated from this table (`make docs`), and a test compares them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import values

if TYPE_CHECKING:
    from collections.abc import Callable

REQUIRED: Final = object()
"""Default of a key without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key.

    Attributes:
        name: As it is written in the file.
        section: The heading it stands under in the reference.
        default: The text used when the file does not have the key, or `REQUIRED`, or None.
        read: From the text to the value; raises ValueError, whose text completes the
            sentence "<key> must be ...".
        meaning: One or two sentences for the reference.
        shown_default: What the reference says in place of a computed default.
        served: False for a key of the proposals that this version does not act on: setting
            it is an error, because a policy that is silently not run would let records pass.
    """

    name: str
    section: str
    read: Callable[[str], Any]
    meaning: str
    default: Any = None
    shown_default: str | None = None
    served: bool = True


UPSTREAM, LISTENERS, POLICIES, TOPICS, LIMITS, LATER = (
    "The cluster behind",
    "What clients connect to",
    "Policies for records",
    "Topics",
    "Limits",
    "Named, not served yet",
)

KEYS: Final[tuple[Key, ...]] = (
    Key(
        name="upstream.bootstrap.servers",
        section=UPSTREAM,
        read=values.servers,
        default=REQUIRED,
        meaning="The cluster's bootstrap addresses, `host:port`, separated by commas.",
    ),
    Key(
        name="upstream.security.protocol",
        section=UPSTREAM,
        read=values.one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        meaning=(
            "How the cluster is reached. Every key of a Kafka client may follow the prefix "
            "`upstream.`: `upstream.ssl.*` (PEM files) holds for every connection to the "
            "cluster; `upstream.sasl.*` is the gateway's own principal, which looks up the "
            "brokers' addresses. Clients authenticate to the cluster themselves, through "
            "the gateway."
        ),
    ),
    Key(
        name="listeners",
        section=LISTENERS,
        read=values.listener,
        default="PLAINTEXT://127.0.0.1:9192",
        meaning=(
            "The bootstrap address that clients use, in Kafka's syntax. With `SSL` or "
            "`SASL_SSL` the `ssl.*` keys of a broker hold (PEM: `ssl.keystore.location`, "
            "`ssl.key.password`, `ssl.truststore.location`, `ssl.client.auth`, "
            "`ssl.enabled.protocols`, `ssl.cipher.suites`). Port 0 takes "
            "a free port, which the `ready` line tells."
        ),
    ),
    Key(
        name="advertised.host",
        section=LISTENERS,
        read=values.text,
        shown_default="the listener's host",
        meaning="The name given to clients. Required where the listener's host is a wildcard.",
    ),
    Key(
        name="broker.ports",
        section=LISTENERS,
        read=values.port_range,
        shown_default="the 100 ports after the listener's",
        meaning=(
            "`FIRST-LAST`. The broker with node id N is reached at FIRST + N - `broker.ids.first`."
        ),
    ),
    Key(
        name="broker.ids.first",
        section=LISTENERS,
        read=values.whole_number(0, 2**31 - 1),
        default="0",
        meaning="The node id that is reached at the first of `broker.ports`.",
    ),
    Key(
        name="record.validator.classes",
        section=POLICIES,
        read=values.class_names,
        default="",
        meaning=(
            "KIP-729: a chain of `BrokerRecordValidator` classes, separated by commas, that "
            "every record of every topic passes, in this order."
        ),
    ),
    Key(
        name="record.validation.policy.class.name",
        section=POLICIES,
        read=values.class_name,
        meaning=(
            "KIP-940: the `RecordValidationPolicy`, for the topics that have a "
            "`record.validation.policy`."
        ),
    ),
    Key(
        name="record.validation.policy.class.path",
        section=POLICIES,
        read=values.paths,
        default="",
        meaning=(
            "Folders that are searched first for the class of KIP-940 and what it imports, "
            f"separated by `{os.pathsep}`; relative ones start at the file's folder. Nothing "
            "else in the process sees the modules found there."
        ),
    ),
    Key(
        name="policy.workers",
        section=POLICIES,
        read=values.whole_number(1, 1024),
        default=str(max(1, (os.cpu_count() or 2) - 1)),
        shown_default="cores - 1, at least 1",
        meaning=(
            "Processes that run policies. While one of them is held up by a slow policy, "
            "others start for the batches behind it, up to twice this number."
        ),
    ),
    Key(
        name="policy.timeout.ms",
        section=POLICIES,
        read=values.whole_number(1, 2**31 - 1),
        default="5000",
        meaning=(
            "Deadline for one batch in the policies of KIP-686, 729 and 940 (and for "
            "`configure()`, which gets at least 30 s). At the deadline the worker is killed "
            "and the batch refused."
        ),
    ),
    Key(
        name="policy.worker.memory.max.bytes",
        section=POLICIES,
        read=values.whole_number(0, 2**63 - 1),
        default=str(2 * 2**30),
        meaning=(
            "Address space that one worker may take; past it the policy gets a MemoryError "
            "and its batch is refused. 0 for no limit."
        ),
    ),
    Key(
        name="produce.rejection.scope",
        section=POLICIES,
        read=values.one_of("partition", "request"),
        default="partition",
        meaning=(
            "`partition`: a refused partition takes no other with it. `request`: all "
            "partitions of a request are refused if one is."
        ),
    ),
    Key(
        name="socket.request.max.bytes",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="104857600",
        meaning="The largest request accepted; a larger one closes the connection (Kafka's key).",
    ),
    Key(
        name="queued.max.request.bytes",
        section=LIMITS,
        read=values.whole_number(-1, 2**63 - 1),
        default="-1",
        shown_default="-1: a quarter of the memory of the machine or the container, 1 GiB at most",
        meaning="So much may be held for all clients together, requests and answers that are not "
        "read; then those that hold much are not read until there is room (Kafka's key).",
    ),
    Key(
        name="sasl.server.max.receive.size",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="524288",
        meaning="The largest request of a client that has not authenticated yet, where the "
        "cluster wants that; a larger one closes the connection (Kafka's key).",
    ),
    Key(
        name="decompressed.batch.max.bytes",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="67108864",
        meaning="A batch that grows past it while it is decompressed is refused.",
    ),
    Key(
        name="decompressed.batch.max.records",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="500000",
        meaning="A batch with more records is refused: a few bytes may stand for millions.",
    ),
    Key(
        name="connections.max.idle.ms",
        section=LIMITS,
        read=values.whole_number(1, 2**63 - 1),
        default="600000",
        meaning="A connection on which nothing moved for so long is closed (Kafka's key).",
    ),
    Key(
        name="max.connections",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="2147483647",
        meaning="So many clients' connections at a time; others wait until one closes "
        "(Kafka's key).",
    ),
    Key(
        name="max.connections.per.ip",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="2147483647",
        meaning="So many from one address; one more is closed at once (Kafka's key).",
    ),
    Key(
        name="max.connection.creation.rate",
        section=LIMITS,
        read=values.whole_number(1, 2**31 - 1),
        default="2147483647",
        meaning="So many new ones a second; others wait for their turn (Kafka's key).",
    ),
    Key(
        name="create.topic.policy.class.name",
        section=TOPICS,
        read=values.class_name,
        meaning=(
            "KIP-108: the `CreateTopicPolicy`, for every topic that is created through the "
            "gateway, also automatically."
        ),
    ),
    Key(
        name="create.topic.policy.create.partitions",
        section=TOPICS,
        read=values.boolean,
        default="true",
        meaning=(
            "Whether the `CreateTopicPolicy` is asked, too, when partitions are added to a topic; "
            "otherwise any bound on partitions can be gone round in two steps."
        ),
    ),
    Key(
        name="create.topic.policy.auto.create.error.code",
        section=TOPICS,
        read=values.one_of("3", "44"),
        default="3",
        meaning=(
            "What a client is told of an unknown topic whose automatic creation was refused: 3, "
            "as by a KRaft cluster, or 44, which tells why clients wait."
        ),
    ),
    Key(
        name="alter.config.policy.class.name",
        section=TOPICS,
        read=values.class_name,
        meaning=(
            "KIP-133: the `AlterConfigPolicy`, for configs that are altered, and for those of "
            "topics that are created."
        ),
    ),
    Key(
        name="produce.request.interceptors",
        section=POLICIES,
        read=values.class_names,
        default="",
        meaning=(
            "KIP-905: a chain of `ProduceRequestInterceptor` classes, in order; they come before "
            "all other policies."
        ),
    ),
    Key(
        name="produce.request.interceptors.timeout.ms",
        section=POLICIES,
        read=values.whole_number(1, 2**31 - 1),
        default="5000",
        meaning=(
            "KIP-905: deadline for one attempt at one partition's batch. At the latest, a batch "
            "is answered when three quarters of its client's own request timeout have passed."
        ),
    ),
    Key(
        name="produce.request.interceptors.max.timeout.retries",
        section=POLICIES,
        read=values.whole_number(0, 2**31 - 1),
        default="0",
        meaning=(
            "KIP-905: further attempts after a deadline; then the batch is answered "
            "REQUEST_TIMED_OUT (7)."
        ),
    ),
    Key(
        name="produce.request.interceptors.failed.error.code",
        section=POLICIES,
        read=values.error_code,
        default="-1",
        meaning=(
            "The error code for a batch that an interceptor failed on. KIP-905 asks for a code "
            "of its own, but its number has since been given to another error."
        ),
    ),
    Key(
        name="produce.request.interceptors.idempotence",
        section=POLICIES,
        read=values.one_of("translate", "strip", "refuse"),
        default="translate",
        meaning=(
            "What becomes of an idempotent producer whose records are dropped. `translate`: its "
            "sequence numbers are changed, and nothing is lost or stored twice. `strip`: its "
            "batches are stored without producer id and sequence number, unless they are "
            "transactional. `refuse`: a batch that loses a record is refused with 87."
        ),
    ),
    Key(
        name="produce.request.interceptors.state",
        section=POLICIES,
        read=values.one_of("local", "cluster"),
        default="local",
        meaning=(
            "Where the sequence numbers of producers whose records were dropped are kept. "
            "`local`: in a folder of this machine, for one gateway. `cluster`: in a topic of the "
            "cluster, so that a producer may move between gateways at any moment."
        ),
    ),
    Key(
        name="produce.request.interceptors.state.dir",
        section=POLICIES,
        read=values.optional_text,
        default="penstock-state",
        meaning=(
            "With `local`: the folder, relative to the file's, in which those numbers outlive a "
            "restart. One gateway writes there. Empty: nothing is kept, and such producers begin "
            "a new epoch after a restart."
        ),
    ),
    Key(
        name="produce.request.interceptors.state.topic",
        section=POLICIES,
        read=values.text,
        default="__penstock_producer_state",
        meaning=(
            "With `cluster`: the compacted topic that keeps those numbers; it is created if it is "
            "not there, by the principal of `upstream.*`, which needs Describe, Read, Write and "
            "Create on it. All gateways of a cluster use the same. A batch that loses records is "
            "written there before it goes to the broker."
        ),
    ),
    Key(
        name="topic.settings.topic",
        section=TOPICS,
        read=values.optional_text,
        default="__penstock_topic_settings",
        meaning=(
            "The compacted topic that keeps topic level keys set through admin tools; it is "
            "created if it is not there, by the principal of `upstream.*`, which needs Describe, "
            "Read, Write and Create on it. All gateways of a cluster use the same. It is used "
            "where this file names a class that a topic level key could switch on, or names the "
            "topic. Empty: topics have no settings of their own, and the cluster refuses the keys."
        ),
    ),
    Key(
        name="records.policy.class.names.allowed",
        section=TOPICS,
        read=values.class_patterns,
        default="",
        meaning=(
            "Classes that a topic's own `records.policy.class.name` may name, separated by "
            "commas: by name, or `package.*`. Those that this file names for some topic are "
            "always allowed. Whoever may alter a topic's configs can have these classes loaded."
        ),
    ),
    Key(
        name="metrics.listener",
        section=LATER,
        read=values.text,
        served=False,
        meaning="`HOST:PORT` of metrics, health and console.",
    ),
)

TOPIC_LEVEL_KEYS: Final[dict[str, str]] = {
    "records.policy.class.name": "KIP-686: the `RecordsPolicy` of the topic.",
    "records.policy.enabled": "KIP-686: `true` switches it on. Default `false`.",
    "record.validation.policy": (
        "KIP-940: switches the validation policy on for the topic, and is handed to it."
    ),
}
"""Kept by topic; in the file as `topics.<glob>.<key>`."""
