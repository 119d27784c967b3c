"""The TLS context of connections to a registry, from `schema.registry.ssl.*` (PEM, KIP-651)."""

from __future__ import annotations

import ssl
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PREFIX: Final = "schema.registry.ssl."
TRUST: Final = f"{_PREFIX}truststore.location"
TRUST_TYPE: Final = f"{_PREFIX}truststore.type"
TRUSTED: Final = f"{_PREFIX}truststore.certificates"
OWN: Final = f"{_PREFIX}keystore.location"
OWN_TYPE: Final = f"{_PREFIX}keystore.type"
KEY: Final = f"{_PREFIX}keystore.key"
CHAIN: Final = f"{_PREFIX}keystore.certificate.chain"
KEY_PASSWORD: Final = f"{_PREFIX}key.password"
IDENTIFICATION: Final = f"{_PREFIX}endpoint.identification.algorithm"
TLS_KEYS: Final = {
    TRUST: (
        "",
        "A PEM file with trusted certificates. Default: those of the machine.",
    ),
    TRUST_TYPE: ("PEM", "`PEM`."),
    TRUSTED: ("", "The trusted certificates, instead of a file."),
    OWN: (
        "",
        "A PEM file with the private key and certificates for mutual TLS.",
    ),
    OWN_TYPE: ("PEM", "`PEM`."),
    KEY: ("", "The private key, instead of a file."),
    CHAIN: ("", "The certificates of the private key."),
    KEY_PASSWORD: ("", "The password of the private key."),
    IDENTIFICATION: (
        "https",
        "`https`: the registry's certificate must name its host. Empty: not checked.",
    ),
}
"""The keys, with their defaults and meanings for the configuration reference."""
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER: Final = b"\x30"


def client_context(configs: Mapping[str, str], folder: Path) -> ssl.SSLContext:
    """Make the context for connections to a registry.

    Args:
        configs: Perhaps with some of `TLS_KEYS`.
        folder: Where relative locations start.

    Raises:
        ValueError: A key has a value that it cannot have, or a file cannot be used. The text
            names the key.
    """
    tls_configs = {key: configs[key].strip() for key in TLS_KEYS if configs.get(key, "").strip()}
    for key, another in ((TRUST, TRUSTED), (OWN, KEY), (OWN, CHAIN)):
        if key in tls_configs and another in tls_configs:
            raise ValueError(f"{key} and {another} cannot both be given")
    if (KEY in tls_configs) != (CHAIN in tls_configs):
        raise ValueError(f"{KEY} and {CHAIN} need each other")
    trusts = TRUST in tls_configs or TRUSTED in tls_configs
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if trusts else ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = _identifies(configs.get(IDENTIFICATION, "https"))
    if trusts:
        _load_trusted(context, tls_configs, folder)
    if OWN in tls_configs or KEY in tls_configs:
        _load_own(context, tls_configs, folder)
    return context


def _identifies(algorithm: str) -> bool:
    if algorithm.strip().lower() not in {"https", ""}:
        raise ValueError(f"{IDENTIFICATION} must be https, or empty, not {algorithm.strip()}")
    return bool(algorithm.strip())


def _load_trusted(context: ssl.SSLContext, configs: Mapping[str, str], folder: Path) -> None:
    try:
        if TRUST in configs:
            context.load_verify_locations(_file(configs, TRUST, TRUST_TYPE, folder))
        else:
            context.load_verify_locations(cadata=configs[TRUSTED])
    except (OSError, ssl.SSLError) as error:
        raise _unusable(TRUST if TRUST in configs else TRUSTED, "certificates", error) from None


def _load_own(context: ssl.SSLContext, configs: Mapping[str, str], folder: Path) -> None:
    # An empty password is never right; without a password, OpenSSL would prompt for it.
    password = configs.get(KEY_PASSWORD, "")
    try:
        if OWN in configs:
            file = _file(configs, OWN, OWN_TYPE, folder)
            context.load_cert_chain(file, password=password)
        else:
            # OpenSSL reads keys from files only; only its owner may read this file, and briefly.
            with NamedTemporaryFile("w", encoding="utf-8") as store:
                store.write(f"{configs[KEY]}\n{configs[CHAIN]}\n")
                store.flush()
                context.load_cert_chain(store.name, password=password)
    except (OSError, ssl.SSLError) as error:
        requirement = f"a private key and its certificates, and {KEY_PASSWORD} if the key has one,"
        raise _unusable(OWN if OWN in configs else KEY, requirement, error) from None


def _file(configs: Mapping[str, str], key: str, type_key: str, folder: Path) -> Path:
    """Return where a store is; a store of Java is an error."""
    path = folder / configs[key]
    kind = configs.get(type_key, "PEM").upper()
    if kind == "PEM":
        with path.open("rb") as store:
            first = store.read(4)
        if first in _JKS:
            kind = "JKS"
        elif first.startswith(_DER):
            kind = "PKCS12 or DER"
    if kind != "PEM":
        raise ValueError(
            f"{key} must be a PEM file, and {path} is {kind}; convert it with keytool "
            "-importkeystore -deststoretype pkcs12, then openssl pkcs12"
        )
    return path


def _unusable(key: str, requirement: str, error: OSError) -> ValueError:
    if isinstance(error, ssl.SSLError):
        why = error.reason or "no PEM"
    else:
        why = error.strerror or "it cannot be read"
    return ValueError(f"{key} is not usable ({requirement} are required): {why}")
