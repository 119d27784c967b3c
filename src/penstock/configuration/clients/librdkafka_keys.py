"""The keys of a Java client, as librdkafka takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.configuration.clients.client_keys import CLIENT_KEYS, checks_host
from penstock.configuration.clients.stores import CHAIN, KEY, TRUSTED, location_of
from penstock.configuration.clients.upstream_keys import check_upstream

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


def client_properties(properties: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Translate a Java client's properties to librdkafka's.

    Tokens of OAUTHBEARER are not a property: librdkafka gets them by a callback.

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
    store_properties = {_CONTENTS[key]: properties[key] for key in _CONTENTS if key in properties}
    trusted = location_of(properties, folder, "truststore", "upstream.")
    own = location_of(properties, folder, "keystore", "upstream.")
    if trusted is not None:
        store_properties["ssl.ca.location"] = str(trusted)
    if own is not None:
        store_properties["ssl.certificate.location"] = str(own)
        store_properties["ssl.key.location"] = str(own)
    return store_properties
