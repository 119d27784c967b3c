"""Clients of librdkafka, from the keys after `upstream.`."""

from __future__ import annotations

import difflib
import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.client_keys import CLIENT_KEYS
from penstock.configuration.clients.librdkafka_keys import LOGIN_OF_LIBRDKAFKA, client_properties
from penstock.configuration.clients.login import read_login
from penstock.configuration.clients.upstream_keys import CLIENT_ID
from penstock.kafka.client.connections.tokens import OAuthTokens, TokenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_UNKNOWN: Final = re.compile(r'No such configuration property: "([^"]*)"')
_CALLBACK: Final = "oauth_cb"
_STATISTICS_MS: Final = 1000
_LOST_AFTER: Final = 2
"""Statistics without a broker, in a row: a client that starts again with its bootstrap servers may
have none for a moment."""
_USED_FOR: Final = 0.75
"""The share of its lifetime that a token is used for; librdkafka requests a new token at 80 %."""


def client_settings(properties: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return the settings of a client. Nothing is contacted.

    Args:
        properties: The keys after `upstream.`, as a Java client or librdkafka takes them.
        folder: Where relative locations in them start.

    Raises:
        ConfigurationError: A key or value is not usable.
    """
    settings: dict[str, Any] = {"log_level": 0, **client_properties(properties, folder)}
    settings["client.id"] = settings.get("client.id") or CLIENT_ID
    if not all(name in CLIENT_KEYS or name.startswith(LOGIN_OF_LIBRDKAFKA) for name in properties):
        _check(settings, "upstream.")
    login = read_login(properties, "upstream.")
    if login is not None and login.oauth is not None:
        settings[_CALLBACK] = _TokenCallback(OAuthTokens(login.oauth, folder / "upstream"))
    return settings


def check(properties: Mapping[str, str], file: Path) -> None:
    """Check, without connecting, that a client could be made of the keys.

    Raises:
        ConfigurationError: It could not.
    """
    settings = {**client_properties(properties, file.parent), "log_level": 0}
    _check(settings, f"{file}: upstream.")


def _check(settings: Mapping[str, Any], where: str) -> None:
    """Let librdkafka check settings, as it alone knows some."""
    try:
        AdminClient(dict(settings))
    except KafkaException as error:
        text = error.args[0].str()
        unknown = _UNKNOWN.search(text)
        if unknown is None:
            raise ConfigurationError(f"{where}*: {text}") from None
        near = difflib.get_close_matches(unknown[1], CLIENT_KEYS, n=1, cutoff=0.8)
        raise ConfigurationError(
            f"{where}{unknown[1]} is not a key of Kafka's Java clients or of librdkafka"
            + (f"; did you mean upstream.{near[0]}?" if near else "")
        ) from None


def admin_client(settings: Mapping[str, Any]) -> AdminClient:
    """Make an admin client. Blocks while a token is obtained.

    Raises:
        KafkaException: There is no token.
    """
    _obtain_token(settings)
    return AdminClient(dict(settings))


def consumer(settings: Mapping[str, Any]) -> Consumer:
    """Make a consumer. Blocks while a token is obtained.

    Raises:
        KafkaException: There is no token.
    """
    _obtain_token(settings)
    return Consumer(dict(settings))


def producer(settings: Mapping[str, Any]) -> Producer:
    """Make a producer. Blocks while a token is obtained.

    Raises:
        KafkaException: There is no token.
    """
    _obtain_token(settings)
    return Producer(dict(settings))


def is_fatal(error: KafkaError) -> bool:
    """Return whether a producer cannot be used any more after an error."""
    return error.fatal() or error.code() == KafkaError._FATAL  # noqa: SLF001 - its name


def watched(settings: Mapping[str, Any], callback: Callable[[], None]) -> dict[str, Any]:
    """Return settings of a client that finds out when it has lost all its brokers.

    librdkafka forgets brokers that a Metadata response does not name. After a response without
    brokers, as they occur while a cluster restarts, a client may never connect again (librdkafka
    issue 5301): it must be replaced.

    Args:
        settings: The settings of the client.
        callback: Called while the client is polled, each second from when it has lost its
            brokers.
    """
    without = 0

    def look(statistics: str) -> None:
        nonlocal without
        brokers = json.loads(statistics)["brokers"].values()
        is_lost = all(broker["source"] == "logical" for broker in brokers)
        without = without + 1 if is_lost else 0
        if without >= _LOST_AFTER:
            callback()

    return {**settings, "statistics.interval.ms": _STATISTICS_MS, "stats_cb": look}


def _obtain_token(settings: Mapping[str, Any]) -> None:
    """Obtain the first token now: librdkafka would wait 10 s for it, and not report the error."""
    callback = settings.get(_CALLBACK)
    if callback is not None:
        callback("")


class _TokenCallback:
    """Passes tokens to librdkafka, in a separate thread and at the start."""

    def __init__(self, tokens: OAuthTokens) -> None:
        self._tokens = tokens

    def __call__(self, _: str | None) -> tuple[str, float, str, dict[str, str]]:
        """Return a token, when it expires, no principal, and the extensions.

        Raises:
            KafkaException: There is no token.
        """
        try:
            token = self._tokens.token(_USED_FOR)
        except TokenError as error:
            why = str(error)
        else:
            if token.left_s > 0:
                return token.text, time.time() + token.left_s, "", dict(self._tokens.extensions)
            why = "the token has expired"
        raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, why))  # noqa: SLF001 - its name
