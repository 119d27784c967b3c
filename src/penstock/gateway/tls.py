"""TLS contexts from Kafka's `ssl.*` keys. Key and trust stores are PEM files (KIP-651)."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.configuration import ConfigurationError
from penstock.gateway.tls_versions import limit_versions

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
        properties: With `ssl.keystore.location` (PEM: key and certificate chain), and
            perhaps `ssl.key.password`, `ssl.truststore.location`, `ssl.client.auth`,
            `ssl.enabled.protocols`, `ssl.cipher.suites`.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A key is missing or a file is not usable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    limit_versions(context, properties, file)
    if not _load_key(context, properties, file, ""):
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
    if client_auth != "none" and not _load_trust(context, properties, file, ""):
        raise ConfigurationError(f"{file}: ssl.client.auth needs ssl.truststore.location (PEM)")
    return context


def renew(context: ssl.SSLContext, properties: Mapping[str, str], file: Path) -> None:
    """Have a listener show the certificate that is in its file now, to new connections.

    Raises:
        ConfigurationError: The file is not usable; the context is as it was.
    """
    server_context(properties, file)
    _load_key(context, properties, file, "")


def client_context(properties: Mapping[str, str], file: Path) -> ssl.SSLContext:
    """Make the context for connections to the cluster, from the keys after `upstream.`.

    Raises:
        ConfigurationError: A file is not usable.
    """
    context = ssl.create_default_context()
    if _load_trust(context, properties, file, "upstream."):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_trust(context, properties, file, "upstream.")
    limit_versions(context, properties, file, "upstream.")
    _load_key(context, properties, file, "upstream.")
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = bool(algorithm.strip())
    return context


def _pem(properties: Mapping[str, str], file: Path, prefix: str, store: str) -> Path | None:
    location = properties.get(f"ssl.{store}.location")
    if not location:
        return None
    kind = properties.get(f"ssl.{store}.type", "PEM")
    if kind.upper() != "PEM" or location.lower().endswith((".jks", ".p12", ".pfx")):
        raise ConfigurationError(
            f"{file}: {prefix}ssl.{store}.location must be a PEM file; convert a Java store with "
            "keytool -importkeystore -deststoretype pkcs12, then openssl pkcs12"
        )
    return file.parent / location


def _load_trust(
    context: ssl.SSLContext, properties: Mapping[str, str], file: Path, prefix: str
) -> bool:
    path = _pem(properties, file, prefix, "truststore")
    if path is None:
        return False
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{file}: {prefix}ssl.truststore.location: {path} is not usable: {error}"
        ) from None
    return True


def _load_key(
    context: ssl.SSLContext, properties: Mapping[str, str], file: Path, prefix: str
) -> bool:
    path = _pem(properties, file, prefix, "keystore")
    if path is None:
        return False
    try:
        context.load_cert_chain(path, password=properties.get("ssl.key.password", ""))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{file}: {prefix}ssl.keystore.location: {path} is not usable (a private key and "
            f"its certificates are wanted): {error}"
        ) from None
    return True


def peer_principal(transport: asyncio.BaseTransport) -> str | None:
    """Return Kafka's principal for a client's certificate: `User:` and its subject (RFC 2253).

    Returns:
        None where the client showed no certificate, or one whose subject has parts that Java
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
    text = "".join(f"\\{one}" if one in _ESCAPED else one for one in value)
    if text[:1] in {"#", " "}:
        text = "\\" + text
    if text[-1:] == " " and len(value) > 1:
        text = text[:-1] + "\\ "
    return text
