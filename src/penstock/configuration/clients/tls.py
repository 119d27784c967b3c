"""The TLS context of connections to the cluster, from Kafka's `ssl.*` keys (PEM, KIP-651)."""

from __future__ import annotations

import ssl
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from penstock.configuration.clients.client_keys import checks_host
from penstock.configuration.clients.stores import CHAIN, KEY, TRUSTED, location_of, missing_part
from penstock.configuration.clients.tls_versions import limit_versions
from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def client_context(
    properties: Mapping[str, str], file: Path, prefix: str = "upstream."
) -> ssl.SSLContext:
    """Make the context for connections to the cluster, from the keys after `upstream.`.

    Args:
        file: The configuration file; relative locations start at its folder.
        prefix: The prefix of the keys there, for errors.

    Raises:
        ConfigurationError: A file is not usable.
    """
    context = ssl.create_default_context()
    if load_trust(context, properties, file, prefix):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_trust(context, properties, file, prefix)
    limit_versions(context, properties, file, prefix)
    load_key(context, properties, file, prefix)
    context.check_hostname = checks_host(properties)
    return context


def load_trust(
    context: ssl.SSLContext, properties: Mapping[str, str], file: Path, prefix: str
) -> bool:
    """Load the authorities of `ssl.truststore.location`, or those in the properties.

    Returns:
        Whether there are any.

    Raises:
        ConfigurationError: They are not usable.
    """
    path = location_of(properties, file.parent, "truststore", f"{file}: {prefix}")
    content = properties.get(TRUSTED)
    if path is None and not content:
        return False
    try:
        context.load_verify_locations(path, cadata=None if path else content)
    except (OSError, ssl.SSLError) as error:
        named = f"ssl.truststore.location: {path}" if path else TRUSTED
        raise ConfigurationError(f"{file}: {prefix}{named} is not usable: {error}") from None
    return True


def load_key(
    context: ssl.SSLContext, properties: Mapping[str, str], file: Path, prefix: str
) -> bool:
    """Load the key and certificates of `ssl.keystore.location`, or those in the properties.

    Returns:
        Whether there are any.

    Raises:
        ConfigurationError: They are not usable.
    """
    path = location_of(properties, file.parent, "keystore", f"{file}: {prefix}")
    key, chain = properties.get(KEY), properties.get(CHAIN)
    if path is None and bool(key) != bool(chain):
        present_key, absent_key = (KEY, CHAIN) if key else (CHAIN, KEY)
        raise ConfigurationError(f"{file}: {prefix}{present_key} needs {prefix}{absent_key}")
    if path is None and not key:
        return False
    password = properties.get("ssl.key.password", "")
    try:
        if path is not None:
            context.load_cert_chain(path, password=password)
        else:
            # OpenSSL reads keys from files only; only its owner may read this file, and briefly.
            with NamedTemporaryFile("w", encoding="utf-8") as store:
                store.write(f"{key}\n{chain}\n")
                store.flush()
                context.load_cert_chain(store.name, password=password)
    except OSError as error:  # also of TLS
        named = f"ssl.keystore.location: {path}" if path else KEY
        text = f"{key}\n{chain}" if path is None else ""
        if path is not None and isinstance(error, ssl.SSLError):
            text = path.read_text("utf-8", "replace")
        raise ConfigurationError(
            f"{file}: {prefix}{named} is not usable (a private key and its certificates are "
            f"required): {_why_unusable(text, error, prefix)}"
        ) from None
    return True


def _why_unusable(text: str, error: OSError, prefix: str) -> str:
    """Return why a key store is not usable, without anything of its content."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    if problem := missing_part(text):
        return problem
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key is not that of the first certificate"
    if "ENCRYPTED" in text:
        return f"the private key is encrypted, and {prefix}ssl.key.password does not open it"
    return str(error)
