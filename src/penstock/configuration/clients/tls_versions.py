"""Kafka's `ssl.enabled.protocols` and `ssl.cipher.suites`, as OpenSSL takes them."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from penstock.configuration.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_BEFORE_1_3: Final = re.compile(r"TLS_(?P<key>\w+?)_WITH_(?P<cipher>\w+)_(?P<hash>SHA\d*|MD5)")
_OF_1_3: Final = re.compile(r"TLS_(?!\w*_WITH_)\w+")


def limit_versions(
    context: ssl.SSLContext, properties: Mapping[str, str], file: Path, prefix: str = ""
) -> None:
    """Let a context accept only the protocol versions of a configuration.

    Args:
        context: Is changed.
        properties: Perhaps with `ssl.enabled.protocols` (`TLSv1.2`, `TLSv1.3`) and
            `ssl.cipher.suites`, in the names of Java or of OpenSSL.
        file: The configuration file, for errors.
        prefix: The prefix of the keys there.

    Raises:
        ConfigurationError: A name is not known, or nothing is left.
    """
    protocols = _listed(properties, "ssl.enabled.protocols") or list(_VERSIONS)
    unknown = [name for name in protocols if name not in _VERSIONS]
    if unknown:
        raise ConfigurationError(
            f"{file}: {prefix}ssl.enabled.protocols: {unknown[0]} must be one of "
            + ", ".join(_VERSIONS)
        )
    suites = _listed(properties, "ssl.cipher.suites")
    if suites:
        protocols = _set_ciphers(context, suites, protocols, f"{file}: {prefix}ssl.cipher.suites")
    versions = sorted(_VERSIONS[name] for name in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def versions_and_suites(context: ssl.SSLContext) -> tuple[bool, bool, list[str]]:
    """Return whether a context allows TLS 1.2, whether it allows TLS 1.3, and its suites."""
    least, most = context.minimum_version, context.maximum_version
    return (
        least <= ssl.TLSVersion.TLSv1_2 <= most,
        least <= ssl.TLSVersion.TLSv1_3 <= most,
        [cipher["name"] for cipher in context.get_ciphers()],
    )


def _set_ciphers(
    context: ssl.SSLContext, suites: Sequence[str], protocols: Sequence[str], key: str
) -> list[str]:
    """Set the suites; return the protocols for which there are any.

    Python sets none of TLS 1.3 singly: they are all allowed, or that version is not.
    """
    newest = [suite for suite in suites if _OF_1_3.fullmatch(suite)]
    older = [suite for suite in suites if suite not in newest]
    every = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.3"}
    if newest and set(newest) != every:
        raise ConfigurationError(
            f"{key}: those of TLS 1.3 can only be allowed together: " + ",".join(sorted(every))
        )
    if older:
        try:
            context.set_ciphers(":".join(map(_openssl_name, older)))
        except ssl.SSLError:
            raise ConfigurationError(f"{key}: none of {', '.join(older)} is known") from None
        cipher_names = {cipher["name"] for cipher in context.get_ciphers()}
        for suite in older:
            if _openssl_name(suite) not in cipher_names:
                raise ConfigurationError(f"{key}: {suite} is not known")
    usable_protocols = [name for name in protocols if (newest if name == "TLSv1.3" else older)]
    if not usable_protocols:
        raise ConfigurationError(f"{key} has no suite for any of ssl.enabled.protocols")
    return usable_protocols


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite before TLS 1.3 that may have Java's."""
    match = _BEFORE_1_3.fullmatch(suite)
    if match is None:
        return suite
    key = "" if match["key"] == "RSA" else match["key"].replace("_", "-") + "-"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", match["cipher"]).removesuffix("_CBC").replace("_", "-")
    if cipher.startswith("CHACHA20"):
        return f"{key}{cipher}"
    return f"{key}{cipher}-{match['hash']}"


def _listed(properties: Mapping[str, str], key: str) -> list[str]:
    return [name.strip() for name in properties.get(key, "").split(",") if name.strip()]
