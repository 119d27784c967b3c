"""Keys that librdkafka has and Kafka's Java clients do not, with Kafka's names: for errors."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USED_KEYS: Final = frozenset({"sasl.username", "sasl.password"})
"""The login is read from these, too."""
_JAAS: Final = "sasl.jaas.config"
KAFKAS_KEYS: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "enable.ssl.certificate.verification": "ssl.endpoint.identification.algorithm",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.kerberos.principal": _JAAS,
    "sasl.kerberos.keytab": _JAAS,
    "sasl.oauthbearer.config": _JAAS,
    "sasl.oauthbearer.extensions": _JAAS,
    "sasl.oauthbearer.method": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "https.ca.location": _JAAS,
    "https.ca.pem": _JAAS,
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "batch.num.messages": "batch.size",
    "request.required.acks": "acks",
}
"""Kafka's keys for the same purpose."""
_WITHOUT: Final = frozenset(
    {
        "api.version.request",
        "broker.address.family",
        "broker.version.fallback",
        "debug",
        "enable.partition.eof",
        "enable.sparse.connections",
        "log.connection.close",
        "log_level",
        "plugin.library.paths",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "receive.message.max.bytes",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.sigalgs.list",
        "statistics.interval.ms",
        "topic.blacklist",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Those that Kafka has no key for."""
_SIMILAR: Final = 0.8


def fault_of_key(name: str, prefix: str, kafkas: Iterable[str]) -> str:
    """Return what is wrong with a key that Kafka's Java clients do not have; empty if it is used.

    Args:
        name: The key without the prefix.
        prefix: Of the keys in the file.
        kafkas: The keys of Kafka's Java clients.
    """
    if name in USED_KEYS:
        return ""
    if name in KAFKAS_KEYS:
        return f"is a key of librdkafka; Kafka's name for it is {prefix}{KAFKAS_KEYS[name]}"
    if name in _WITHOUT:
        return "is a key of librdkafka, and Kafka has none for it: leave it out"
    near = difflib.get_close_matches(name, list(kafkas), n=1, cutoff=_SIMILAR)
    hint = f"; did you mean {prefix}{near[0]}?" if near else ""
    return f"is not a key of Kafka's Java clients{hint}"
