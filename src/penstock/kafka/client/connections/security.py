"""How connections to the cluster are secured: Kafka's keys as the arguments of aiokafka."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from penstock.configuration.clients.jaas import jaas_options
from penstock.configuration.clients.tls import client_context
from penstock.configuration.clients.upstream_keys import check_upstream
from penstock.configuration.errors import ConfigurationError
from penstock.kafka.client.connections.oauth import TokenProvider
from penstock.kafka.client.connections.tokens import OAuthTokens

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.configuration.clients.login import Login


def connection_options(properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    """Return the arguments of an aiokafka connection that are about TLS and SASL.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A value, a file or a library is missing or not usable.
    """
    login = check_upstream(properties, f"{file}: upstream.")
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        options["ssl_context"] = client_context(properties, file)
    if login is not None:
        options |= _sasl(login, properties, file)
    return options


def _sasl(login: Login, properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": login.mechanism}
    if login.oauth is not None:
        options["sasl_oauth_token_provider"] = TokenProvider(OAuthTokens(login.oauth, file))
    elif login.mechanism == "GSSAPI":
        options |= _kerberos(properties, file)
    else:
        options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return options


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
