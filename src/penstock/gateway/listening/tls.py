"""TLS contexts from Kafka's `ssl.*` keys. Key and trust stores are PEM files (KIP-651)."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.clients.tls import load_key, load_trust
from penstock.configuration.clients.tls_versions import limit_versions

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from pathlib import Path

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED: Final = frozenset(',+"\\<>;')


def server_context(properties: Mapping[str, str], file: Path) -> ssl.SSLContext:
    """Make the context of a listener.

    Args:
        properties: With `ssl.keystore.location` (PEM: key and certificate chain), or
            `ssl.keystore.key` and `ssl.keystore.certificate.chain`; and perhaps
            `ssl.key.password`, `ssl.truststore.location` or `ssl.truststore.certificates`,
            `ssl.client.auth`, `ssl.enabled.protocols`, `ssl.cipher.suites`.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A key is missing or a file is not usable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    limit_versions(context, properties, file)
    if not load_key(context, properties, file, ""):
        raise ConfigurationError(f"{file}: listeners with SSL need ssl.keystore.location (PEM)")
    client_auth = properties.get("ssl.client.auth", "none").lower()
    modes = {
        "none": ssl.CERT_NONE,
        "requested": ssl.CERT_OPTIONAL,
        "required": ssl.CERT_REQUIRED,
    }
    if client_auth not in modes:
        raise ConfigurationError(f"{file}: ssl.client.auth must be one of {', '.join(modes)}")
    context.verify_mode = modes[client_auth]
    if client_auth != "none" and not load_trust(context, properties, file, ""):
        raise ConfigurationError(f"{file}: ssl.client.auth needs ssl.truststore.location (PEM)")
    return context


def renew(context: ssl.SSLContext, properties: Mapping[str, str], file: Path) -> None:
    """Use the certificate and the clients' authorities that are in their files now.

    New connections get the new certificate. New authorities are trusted in addition: OpenSSL
    cannot remove an authority from a context.

    Raises:
        ConfigurationError: A file is not usable; the context is as it was.
    """
    server_context(properties, file)
    load_key(context, properties, file, "")
    if context.verify_mode != ssl.CERT_NONE:
        load_trust(context, properties, file, "")


def peer_principal(transport: asyncio.BaseTransport) -> str | None:
    """Return Kafka's principal for a client's certificate: `User:` and its subject (RFC 2253).

    Returns:
        None if the client showed no certificate, or its certificate's subject has parts that Java
        writes as numbers.
    """
    certificate = transport.get_extra_info("peercert")
    parts = []
    for names in reversed(certificate.get("subject", ()) if certificate else ()):
        if any(name not in _SHORT_NAMES for name, _ in names):
            return None
        parts.append("+".join(f"{_SHORT_NAMES[name]}={_escaped(value)}" for name, value in names))
    return f"User:{','.join(parts)}" if parts else None


def _escaped(value: str) -> str:
    text = "".join(f"\\{character}" if character in _ESCAPED else character for character in value)
    if text[:1] in {"#", " "}:
        text = "\\" + text
    if text[-1:] == " " and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
