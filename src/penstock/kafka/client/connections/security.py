"""How connections to the cluster are secured: Kafka's keys as the arguments of aiokafka."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.configuration.clients.jaas import jaas_options
from penstock.configuration.clients.stores import location_of
from penstock.configuration.clients.tls import client_context
from penstock.configuration.clients.upstream_keys import read_upstream_login
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.configuration.clients.login import Login


log = structlog.get_logger()

_CONTEXT: Final = "ssl_context"
_STORES: Final = ("truststore", "keystore")
_JAVAS_FILES: Final = {"keyTab": "KRB5_CLIENT_KTNAME", "ticketCache": "KRB5CCNAME"}


class ConnectionSecurity:
    """The arguments of aiokafka's connections; certificates are read again when a file changes."""

    def __init__(self, properties: Mapping[str, str], file: Path) -> None:
        """Read the keys and the files.

        Args:
            properties: The keys after `upstream.`, as a Java client takes them.
            file: The configuration file; relative locations start at its folder.

        Raises:
            ConfigurationError: A value, a file or a library is missing or not usable.
        """
        self._properties = properties
        self._file = file
        self._files = self._states()
        self._options = connection_options(properties, file)

    def options(self) -> Mapping[str, Any]:
        """Return the arguments for a connection that is made now.

        While files are being replaced, or are not usable, those that were read before are used.
        """
        files = self._states()
        if files != self._files:
            self._files = files
            try:
                context = client_context(self._properties, self._file)
            except ConfigurationError as error:
                log.warning("certificates are not read again", reason=str(error))
            else:
                self._options = {**self._options, _CONTEXT: context}
        return self._options

    def _states(self) -> list[tuple[int, int, int] | None]:
        """Return what shows that a store was written, for each; None for none."""
        if not self._properties.get("security.protocol", "").strip().upper().endswith("SSL"):
            return []
        return [self._state(store) for store in _STORES]

    def _state(self, store: str) -> tuple[int, int, int] | None:
        try:
            path = location_of(self._properties, self._file.parent, store, "")
            status = path.stat() if path is not None else None
        except (OSError, ConfigurationError):
            return None
        return status and (status.st_mtime_ns, status.st_size, status.st_ino)


def connection_options(properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    """Return the arguments of an aiokafka connection that are about TLS and SASL.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A value, a file or a library is missing or not usable.
    """
    login = read_upstream_login(properties, f"{file}: upstream.")
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    options: dict[str, Any] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        options[_CONTEXT] = client_context(properties, file)
    if login is not None:
        options |= _sasl(login, properties, file)
    return options


def _sasl(login: Login, properties: Mapping[str, str], file: Path) -> dict[str, Any]:
    options: dict[str, Any] = {"sasl_mechanism": login.mechanism}
    if login.oauth is not None:
        # aiokafka takes long to import, and is not needed to check other keys.
        from penstock.kafka.client.connections.oauth import TokenProvider  # noqa: PLC0415
        from penstock.kafka.client.connections.tokens import OAuthTokens  # noqa: PLC0415

        options["sasl_oauth_token_provider"] = TokenProvider(OAuthTokens(login.oauth, file))
    elif login.mechanism == "GSSAPI":
        options |= _kerberos(properties, file)
    else:
        options |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
    return options


def _kerberos(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    try:
        importlib.import_module("gssapi")
    except ImportError as error:
        reason = "" if error.name == "gssapi" else f": {error}"
        raise ConfigurationError(
            f"{file}: upstream.sasl.mechanism=GSSAPI needs the Python package gssapi, here and on "
            f"every executor{reason}"
        ) from None
    jaas = jaas_options(properties)
    for option, variable in _JAVAS_FILES.items():
        if jaas.get(option) and variable not in os.environ:
            raise ConfigurationError(
                f"{file}: upstream.sasl.jaas.config: {option} is an option of Java; name the file "
                f"by the environment variable {variable}"
            )
    service = properties.get("sasl.kerberos.service.name") or jaas.get("serviceName")
    return {
        "sasl_kerberos_service_name": service or "kafka",
        "kerberos_principal": jaas.get("principal", ""),
    }
