"""Readers of configuration values: from text to a value, or a ValueError with the valid values."""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Address(NamedTuple):
    """A host name or IP address (IPv6 without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListenerAddress(NamedTuple):
    """The address where clients connect, and whether it has TLS."""

    tls: bool
    address: Address

    def __str__(self) -> str:
        return f"{'SSL' if self.tls else 'PLAINTEXT'}://{self.address}"


PEERS_MAX = 20
"""The listener for metrics accepts 32 connections, and its peers read it as well."""
TOPIC_VARIABLE = "${topic}"
"""The placeholder for the name of a topic in the name of another topic."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/\s]*)):(\d{1,5})")
_CLASS_PATTERN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*[.:]([^\W\d]\w*|\*)")
_POLICY_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*[.:][^\W\d]\w*")
_SECRET = re.compile(r"(?i)password|secret|token|credential|jaas|user\.info|ssl\.keystore\.key")


def may_be_secret(key: str) -> bool:
    """Return whether the value of a key may be a secret, by the key's name."""
    return _SECRET.search(key) is not None


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value.strip():
        raise ValueError("a value, not nothing")
    return value.strip()


def whole_number(least: int, most: int, expected: str | None = None) -> Callable[[str], int]:
    """Return the reader of an integer within bounds.

    Args:
        least: The smallest number.
        most: The largest number.
        expected: What an error says would be right; the bounds by default.
    """

    def read(value: str) -> int:
        try:
            number = int(value.strip())
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(expected or f"a whole number from {least} to {most}")
        return number

    return read


def number(value: str) -> float:
    """Read a number, with or without a fraction."""
    try:
        parsed_number = float(value.strip())
    except ValueError:
        parsed_number = math.nan
    if not math.isfinite(parsed_number):
        raise ValueError("a number")
    return parsed_number


def error_code(value: str) -> int:
    """A Kafka error code; 0 is none."""
    try:
        number = int(value.strip())
    except ValueError:
        number = 0
    if not -1 <= number <= 2**15 - 1 or number == 0:
        raise ValueError("the number of a Kafka error: -1, or from 1 to 32767")
    return number


def optional_text(value: str) -> str:
    """Read any text, also empty text."""
    return value.strip()


def one_of(*choices: str) -> Callable[[str], str]:
    """Return the reader of a choice; letter case does not matter."""
    by_lower = {choice.lower(): choice for choice in choices}

    def read(value: str) -> str:
        try:
            return by_lower[value.strip().lower()]
        except KeyError:
            named = ", ".join(filter(None, choices))
            raise ValueError(f"one of {named}{', or empty' if '' in by_lower else ''}") from None

    return read


def boolean(value: str) -> bool:
    """Read `true` or `false`, as Kafka does: letter case does not matter."""
    return one_of("true", "false")(value) == "true"


def topic_name(value: str) -> str:
    """Read the name of a topic."""
    name = value.strip()
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise ValueError("the name of a topic: up to 249 of a-z A-Z 0-9 . _ -")
    return name


def optional_topic_name(value: str) -> str:
    """Read the name of a topic, or nothing."""
    return topic_name(value) if value.strip() else ""


def topic_template(value: str) -> str:
    """Read the name of a topic, which may have `${topic}` for another topic's name."""
    name = value.strip()
    rest = name.replace(TOPIC_VARIABLE, "")
    is_own = name.startswith("__")  # of Kafka's or a gateway's own
    if is_own or not _TOPIC.fullmatch(rest) or (name == rest and name in {".", ".."}):
        raise ValueError(
            "the name of a topic: up to 249 of a-z A-Z 0-9 . _ -, not beginning with __, which "
            f"can contain {TOPIC_VARIABLE} with other characters, like {TOPIC_VARIABLE}.dead"
        )
    return name


def ratio(value: str) -> float:
    """Read a share, from 0.0 to 1.0."""
    try:
        number = float(value.strip())
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError("a number from 0.0 to 1.0")
    return number


def address(value: str) -> Address:
    """Read `host:port` or `[IPv6]:port`."""
    match = _ADDRESS.fullmatch(value.strip())
    if match is None or int(match[3]) > 65535:
        raise ValueError("host:port, with a port up to 65535")
    return Address(match[1] or match[2], int(match[3]))


def local_address(value: str) -> Address:
    """Read `host:port`, or `:port` for the loopback address."""
    try:
        host, port = address(value)
    except ValueError:
        raise ValueError("host:port, or :port for 127.0.0.1, with a port up to 65535") from None
    return Address(host or "127.0.0.1", port)


def servers(value: str) -> tuple[Address, ...]:
    """Read `host:port,host:port`."""
    addresses = tuple(address(part) for part in value.split(",") if part.strip())
    if not addresses or any(not server.host or not server.port for server in addresses):
        raise ValueError("host:port, or several of them separated by commas")
    return addresses


def peers(value: str) -> tuple[Address, ...]:
    """Read `host:port,host:port`: each once, and not too many; also none."""
    addresses = servers(value) if value.strip() else ()
    if len({(peer.host.lower(), peer.port) for peer in addresses}) != len(addresses):
        raise ValueError("host:port, or several of them separated by commas, each once")
    if len(addresses) > PEERS_MAX:
        raise ValueError(f"at most {PEERS_MAX} times host:port, separated by commas")
    return addresses


def listener(value: str) -> ListenerAddress:
    """Read `PROTOCOL://host:port`. Only TLS matters here, because the cluster handles SASL."""
    if "," in value:
        raise ValueError("one listener; run another gateway for another listener")
    protocol, separator, rest = value.strip().partition("://")
    if not separator or protocol.upper() not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        raise ValueError("PLAINTEXT://host:port or SSL://host:port (or SASL_PLAINTEXT, SASL_SSL)")
    return ListenerAddress(protocol.upper().endswith("SSL"), address(rest))


def port_range(value: str) -> range:
    """Read `FIRST-LAST`, or one port."""
    first, separator, last = value.strip().partition("-")
    try:
        ports = range(int(first), int(last if separator else first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or not 1 <= ports[0] <= ports[-1] <= 65535:
        raise ValueError("FIRST-LAST, two ports from 1 to 65535, the smaller one first")
    return ports


def class_name(value: str) -> str:
    """Read `package.module.Class` or `package.module:Class`."""
    name = value.strip()
    if not _CLASS.fullmatch(name):
        raise ValueError("package.module.Class or package.module:Class")
    return name


def dotted(name: str) -> str:
    """Return `package.module.Class`, also of `package.module:Class`, which is the same class."""
    return name.replace(":", ".")


def class_names(value: str) -> tuple[str, ...]:
    """Read class names separated by commas; each once."""
    names = tuple(class_name(part) for part in value.split(",") if part.strip())
    if len(set(map(dotted, names))) != len(names):
        raise ValueError("class names separated by commas, each named once")
    return names


def class_patterns(value: str) -> tuple[str, ...]:
    """Read class names separated by commas; the last part may be `*`, for a package."""
    patterns = tuple(part.strip() for part in value.split(",") if part.strip())
    for pattern in patterns:
        if not _CLASS_PATTERN.fullmatch(pattern):
            raise ValueError("package.module.Class or package.*, separated by commas")
    return patterns


def key_patterns(value: str) -> tuple[str, ...]:
    """Read names of topic level keys separated by commas; they may have `*` and `?`."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def items(value: str) -> tuple[str, ...]:
    """Read a comma-separated list, without the spaces around its items."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def policy_names(value: str) -> tuple[str, ...]:
    """Read names of policies separated by commas; each once."""
    names = items(value)
    if not all(map(_POLICY_NAME.fullmatch, names)) or len(set(names)) != len(names):
        raise ValueError(
            "names of policies separated by commas, each once; a name has letters, digits, - and _"
        )
    return names


def paths(value: str) -> tuple[str, ...]:
    """Read a path list as the operating system writes it."""
    return tuple(part.strip() for part in value.split(os.pathsep) if part.strip())
