"""The keys of a Java client, as librdkafka and Spark's Kafka connector take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.clients.client_keys import (
    CLIENT_KEYS,
    Effect,
    check_client_keys,
    checks_host,
)
from penstock.configuration.clients.jaas import jaas_config, jaas_options
from penstock.configuration.clients.login import Login, read_login
from penstock.configuration.clients.oauth import FROM_URL, HANDLER
from penstock.configuration.clients.stores import CHAIN, KEY, TRUSTED, location_of, with_contents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CONTENTS: Final = {TRUSTED: "ssl.ca.pem", CHAIN: "ssl.certificate.pem", KEY: "ssl.key.pem"}
_HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
LOGIN_OF_LIBRDKAFKA: Final = (
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "https.ca.",
    "sasl.oauthbearer.",
)
"""How keys of librdkafka begin that the login is read from."""


def check_upstream(properties: Mapping[str, str], where: str) -> Login | None:
    """Check the keys after `upstream.`, as far as that needs no file and no connection.

    Args:
        properties: The keys after `upstream.`, as a Java client or librdkafka takes them.
        where: The file and `upstream.`, for errors.

    Returns:
        How to log in; None without SASL.

    Raises:
        ConfigurationError: A value is wrong or missing.
    """
    check_client_keys(properties, where)
    return read_login(properties, where)


def client_properties(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Translate a Java client's properties to librdkafka's.

    Tokens of OAUTHBEARER are no property: librdkafka gets them by a callback.

    Args:
        properties: The keys after `upstream.`; those of librdkafka stay as they are.
        folder: Where relative locations start.

    Raises:
        ConfigurationError: A value is wrong, or a store is a Java keystore.
    """
    login = check_upstream(properties, "upstream.")
    result: dict[str, str] = {}
    for name, value in properties.items():
        key = CLIENT_KEYS.get(name)
        if key is None:
            if not name.startswith(LOGIN_OF_LIBRDKAFKA):
                result[name] = value
        elif key.librdkafka:
            result[key.librdkafka] = key.for_librdkafka(value)
    result |= _stores(properties, folder)
    if _HOST_CHECK in properties:
        result[_HOST_CHECK] = "https" if checks_host(properties) else "none"
    if login is not None:
        result["sasl.mechanism"] = login.mechanism
        if login.password:
            result |= {"sasl.username": login.user, "sasl.password": login.password}
    return result


def _stores(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    found = {_CONTENTS[key]: properties[key] for key in _CONTENTS if key in properties}
    trusted = location_of(properties, folder, "truststore", "upstream.")
    own = location_of(properties, folder, "keystore", "upstream.")
    if trusted is not None:
        found["ssl.ca.location"] = str(trusted)
    if own is not None:
        found["ssl.certificate.location"] = found["ssl.key.location"] = str(own)
    return found


def java_properties(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the properties for Kafka's Java client, with the contents of stores.

    A login in the names of librdkafka, or of a newer Kafka (KIP-1139), becomes
    `sasl.jaas.config`, and OAUTHBEARER with an endpoint gets Kafka's handler for it (KIP-768).

    Args:
        properties: The keys after `upstream.`.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A value is wrong, or a store cannot be read, or is a Java keystore.
    """
    login = check_upstream(properties, f"{file}: upstream.")
    result = {
        name: value
        for name, value in with_contents(properties, file).items()
        if not name.startswith("sasl.mechanisms") and not _is_replaced(name)
    }
    if not checks_host(properties):
        result[_HOST_CHECK] = ""
    if login is None:
        return result
    result["sasl.mechanism"] = login.mechanism
    if login.oauth is not None:
        options = {**login.oauth.jaas(), **jaas_options(properties)}
        result["sasl.jaas.config"] = jaas_config(login.mechanism, options)
        if login.oauth.url and not result.get(HANDLER, "").strip():
            result[HANDLER] = FROM_URL
    elif login.password and not properties.get("sasl.jaas.config"):
        options = {"username": login.user, "password": login.password}
        result["sasl.jaas.config"] = jaas_config(login.mechanism, options)
    return result


def _is_replaced(name: str) -> bool:
    """Return whether Spark's connector sets a key itself; it refuses some of them."""
    key = CLIENT_KEYS.get(name)
    return key is not None and key.effect is Effect.REPLACED and name != "group.id"
