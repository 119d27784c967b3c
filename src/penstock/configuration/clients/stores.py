"""Key and trust stores: PEM files (KIP-651), and their contents as properties.

Files stay on the machine they are on; contents travel with the properties to wherever a job runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TRUSTED: Final = "ssl.truststore.certificates"
CHAIN: Final = "ssl.keystore.certificate.chain"
KEY: Final = "ssl.keystore.key"
_STORES: Final = {"truststore": (TRUSTED,), "keystore": (CHAIN, KEY)}
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER: Final = b"\x30"
_SUFFIXES: Final = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}


def location_of(properties: Mapping[str, str], folder: Path, store: str, where: str) -> Path | None:
    """Return where a store is; None without a store, or if it is in the properties.

    Args:
        properties: The keys after the prefix.
        folder: Where relative locations start.
        store: `truststore` or `keystore`.
        where: The file, if it is known, and the prefix of the keys, for errors.

    Raises:
        ConfigurationError: It is a store of Java.
    """
    location = properties.get(f"ssl.{store}.location")
    if not location:
        return None
    path = folder / location
    kind = properties.get(f"ssl.{store}.type", "PEM").strip().upper()
    if kind == "PEM":
        kind = _SUFFIXES.get(path.suffix.lower(), kind)
    if kind == "PEM":
        kind = _kind_of(path)
    if kind != "PEM":
        raise ConfigurationError(
            f"{where}ssl.{store}.location must be a PEM file, and {path} is {kind}: "
            "Penstock's client is written in Python, which cannot read Java key stores; "
            "convert it with keytool -importkeystore -deststoretype pkcs12, then openssl pkcs12"
        )
    return path


def key_and_chain(properties: Mapping[str, str], folder: Path, where: str) -> bytes | None:
    """Return the private key and its certificates (PEM); None without a key store.

    Args:
        properties: The keys after the prefix.
        folder: Where relative locations start.
        where: The file, if it is known, and the prefix of the keys, for errors.

    Raises:
        ConfigurationError: It is a store of Java.
        OSError: It cannot be read.
    """
    path = location_of(properties, folder, "keystore", where)
    if path is not None:
        return path.read_bytes()
    key, chain = properties.get(KEY), properties.get(CHAIN)
    return f"{key}\n{chain}\n".encode() if key and chain else None


def missing_part(text: str) -> str:
    """Return what a key store in PEM lacks; empty if it has a key and a certificate."""
    labels = [match[1] for match in _BLOCK.finditer(text)]
    has_key = any(label.endswith("PRIVATE KEY") for label in labels)
    has_certificate = any(label.endswith("CERTIFICATE") for label in labels)
    if has_key and has_certificate:
        return ""
    if not (has_key or has_certificate):
        return "it has neither a private key nor a certificate"
    part, file = ("certificate", "certificate") if has_key else ("private key", "key")
    return f"it has no {part}: append the file of the {file} to it, with cat"


def with_contents(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the properties with the contents of stores instead of their locations.

    Args:
        properties: The keys after `upstream.`, as a Java client takes them.
        file: The configuration file; relative locations start at its folder.

    Raises:
        ConfigurationError: A store cannot be read, or is a Java keystore.
    """
    result = dict(properties)
    for store, keys in _STORES.items():
        path = location_of(properties, file.parent, store, f"{file}: upstream.")
        if path is None:
            continue
        del result[f"ssl.{store}.location"]
        result[f"ssl.{store}.type"] = "PEM"
        result |= zip(keys, _contents(path, file, store), strict=True)
    return result


def _contents(path: Path, file: Path, store: str) -> tuple[str, ...]:
    where = f"{file}: upstream.ssl.{store}.location: {path}"
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigurationError(
            f"{where} cannot be read here ({why}); it is read on the driver, and need not be on "
            "the executors"
        ) from None
    blocks = [(match[1], match[0]) for match in _BLOCK.finditer(text)]
    certificates = "\n".join(block for label, block in blocks if label.endswith("CERTIFICATE"))
    keys = [block for label, block in blocks if label.endswith("PRIVATE KEY")]
    if not certificates or (store == "keystore" and len(keys) != 1):
        required_parts = (
            "a private key and its certificates" if store == "keystore" else "certificates"
        )
        problem = missing_part(text) if store == "keystore" else ""
        more = f": {problem}" if problem else ""
        raise ConfigurationError(f"{where} is not usable ({required_parts} are required){more}")
    return (certificates,) if store == "truststore" else (certificates, keys[0])


def _kind_of(path: Path) -> str:
    """Return the kind of a store by its first bytes; PEM also where it cannot be read."""
    try:
        with path.open("rb") as store:
            first = store.read(4)
    except OSError:
        return "PEM"  # its reader reports the error
    if first in _JKS:
        return "JKS"
    return "PKCS12" if first.startswith(_DER) else "PEM"
