"""How connections to the cluster are secured: Kafka's keys as the arguments of aiokafka."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, Final

from penstock.client.oauth import token_provider
from penstock.configuration.clients import client_properties, jaas_options
from penstock.configuration.errors import ConfigurationError
from penstock.configuration.tls import client_context

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")


def connection_options(properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    """Return the arguments of an aiokafka connection that are about TLS and SASL.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A value, a file or a library is missing or not usable.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(
            f"{file}: upstream.security.protocol must be one of {', '.join(_PROTOCOLS)}"
        )
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        options["ssl_context"] = client_context(properties, file)
    if protocol.startswith("SASL"):
        options |= _sasl(properties, file)
    return options


def _sasl(properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    given = client_properties(properties, file.parent)
    mechanism = (given.get("sasl.mechanism") or given.get("sasl.mechanisms") or "GSSAPI").strip()
    if mechanism not in _MECHANISMS:
        raise ConfigurationError(
            f"{file}: upstream.sasl.mechanism must be one of {', '.join(_MECHANISMS)}"
        )
    options: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = token_provider(properties, f"{file}: upstream.")
    elif mechanism == "GSSAPI":
        options |= _kerberos(properties, file)
    else:
        options |= _password(properties, given, mechanism, file)
    return options


def _password(
    properties: Mapping[str, str], given: Mapping[str, str], mechanism: str, file: Path
) -> dict[str, str]:
    if jaas_options(properties).get("tokenauth", "").lower() == "true":
        raise ConfigurationError(
            f"{file}: upstream.sasl.jaas.config: delegation tokens (tokenauth) are not supported"
        )
    user, password = given.get("sasl.username"), given.get("sasl.password")
    if not user or not password:
        raise ConfigurationError(
            f"{file}: upstream.sasl.mechanism={mechanism} needs username and password in "
            "upstream.sasl.jaas.config"
        )
    return {"sasl_plain_username": user, "sasl_plain_password": password}


def _kerberos(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigurationError(
            f"{file}: upstream.sasl.mechanism=GSSAPI needs the Python package gssapi, here and on "
            "every executor"
        )
    jaas = jaas_options(properties)
    if jaas.get("keyTab") and "KRB5_CLIENT_KTNAME" not in os.environ:
        raise ConfigurationError(
            f"{file}: upstream.sasl.jaas.config: keyTab is an option of Java; name the file by "
            "the environment variable KRB5_CLIENT_KTNAME"
        )
    service = properties.get("sasl.kerberos.service.name") or jaas.get("serviceName")
    return {"sasl_kerberos_service_name": service or "kafka"}
