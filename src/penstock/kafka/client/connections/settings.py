"""The settings of a client, from the properties that a Kafka client takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration.clients.client_keys import check_client_keys
from penstock.configuration.clients.upstream_keys import CLIENT_ID
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.values import Address, servers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FOREVER_S: Final = 10 * 365 * 86_400.0


class Settings(NamedTuple):
    """How a client behaves. The names and defaults are those of Kafka's own clients.

    Attributes:
        servers: `bootstrap.servers`.
        client_id: `client.id`.
        rack: `client.rack`; empty for none.
        request_timeout_s: `request.timeout.ms`: a broker responds within it, or its connection
            is given up.
        api_timeout_s: `default.api.timeout.ms`: how long retriable errors are retried.
        connect_timeout_s: `socket.connection.setup.timeout.ms`, TLS and SASL included.
        idle_timeout_s: `connections.max.idle.ms`; 0 and less is never, as for brokers.
        backoff_s: `retry.backoff.ms`: the pause before the first retry.
        max_backoff_s: `retry.backoff.max.ms`: the longest pause before a retry.
        fetch_max_bytes: `fetch.max.bytes`: the size of a response, unless a batch is larger;
            here 4 MiB, since two responses are in memory at a time.
        fetch_max_wait_ms: `fetch.max.wait.ms`.
    """

    servers: tuple[Address, ...]
    client_id: str
    rack: str
    request_timeout_s: float
    api_timeout_s: float
    connect_timeout_s: float
    idle_timeout_s: float
    backoff_s: float
    max_backoff_s: float
    fetch_max_bytes: int
    fetch_max_wait_ms: int


def read_settings(properties: Mapping[str, str], file: Path) -> Settings:
    """Read the settings of a client.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file, for errors.

    Raises:
        ConfigurationError: A value is missing or not usable.
    """
    check_client_keys(properties, f"{file}: upstream.")

    def number(key: str, default: int) -> int:
        return int(properties.get(key, default))

    def seconds(key: str, default: int) -> float:
        return number(key, default) / 1000

    try:
        addresses = servers(properties.get("bootstrap.servers", ""))
    except ValueError as error:
        raise ConfigurationError(f"{file}: upstream.bootstrap.servers must be {error}") from None
    idle_ms = number("connections.max.idle.ms", 540_000)
    return Settings(
        addresses,
        properties.get("client.id", "").strip() or CLIENT_ID,
        properties.get("client.rack", "").strip(),
        request_timeout_s=seconds("request.timeout.ms", 30_000),
        api_timeout_s=seconds("default.api.timeout.ms", 60_000),
        connect_timeout_s=seconds("socket.connection.setup.timeout.ms", 10_000),
        idle_timeout_s=idle_ms / 1000 if idle_ms > 0 else _FOREVER_S,
        backoff_s=seconds("retry.backoff.ms", 100),
        max_backoff_s=seconds("retry.backoff.max.ms", 1_000),
        fetch_max_bytes=number("fetch.max.bytes", 4 * 2**20),
        fetch_max_wait_ms=number("fetch.max.wait.ms", 500),
    )
