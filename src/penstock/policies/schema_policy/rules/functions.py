"""The functions that Confluent adds to CEL: `isEmail`, `isHostname`, `isUri` and the like.

Source: `BuiltinLibrary` of Confluent's rules for Java, `extra_func.py` of its Python client.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST: Final = 2048
"""Characters; longer texts match none of these."""
_HOSTNAME_LONGEST: Final = 253
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}")
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def is_hostname(text: str) -> bool:
    """Return whether a text is a name of a host: labels of letters, digits and hyphens."""
    name = text.removesuffix(".")
    labels = name.split(".") if len(name) <= _HOSTNAME_LONGEST else []
    return (
        bool(labels)
        and all(_LABEL.fullmatch(label) for label in labels)
        and not labels[-1].isdigit()
    )


def is_email(text: str) -> bool:
    """Return whether a text is one address, without a display name."""
    if len(text) > _LONGEST:
        return False
    local, at_sign, host = text.rpartition("@")
    return bool(at_sign and _LOCAL_PART.fullmatch(local)) and is_hostname(host)


def is_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address."""
    return _is_address(text, 4)


def is_ipv6(text: str) -> bool:
    """Return whether a text is an IPv6 address."""
    return _is_address(text, 6)


def is_uri(text: str) -> bool:
    """Return whether a text is an absolute URI with a host or a path."""
    parts = _split(text)
    return parts is not None and bool(parts[0] and (parts[1] or parts[2]))


def is_uri_ref(text: str) -> bool:
    """Return whether a text is a URI, absolute or relative."""
    return _split(text) is not None


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID with hyphens."""
    return len(text) <= _LONGEST and _UUID.fullmatch(text) is not None


def _is_address(text: str, version: int) -> bool:
    if len(text) > _HOSTNAME_LONGEST:
        return False
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _split(text: str) -> tuple[str, str, str] | None:
    if len(text) > _LONGEST or any(sign.isspace() or sign in '<>"{}|\\^`' for sign in text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return parts.scheme, parts.netloc, parts.path


FUNCTIONS: Final[Mapping[str, Callable[[str], bool]]] = {
    "isEmail": is_email,
    "isHostname": is_hostname,
    "isIpv4": is_ipv4,
    "isIpv6": is_ipv6,
    "isUri": is_uri,
    "isUriRef": is_uri_ref,
    "isUuid": is_uuid,
}
"""By their names in expressions, as methods of a string."""
