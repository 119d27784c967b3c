"""The PROXY protocol, version 2: the address of a client behind a load balancer.

A header of 16 bytes and an address precede the client's first byte, also that of TLS. Source:
proxy-protocol.txt of HAProxy, section 2.2. The unused parts of it are skipped: the destination,
the client's other attributes (TLVs).

Any peer that reaches the port can send such a header; it is trusted, as the configuration demands.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import TYPE_CHECKING, Final

from penstock.configuration import Address
from penstock.errors import MalformedError

if TYPE_CHECKING:
    import socket

HEADER_S: Final = 10.0
"""The time in which the header has to be there."""
HEADER_MAX_BYTES: Final = 4096
"""With all attributes, which a load balancer may add, such as the certificate of a client."""
SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_VERSION_1: Final = b"PROXY "
_FIXED: Final = Struct(">12sBBH")
_VERSION: Final = 2
_LOCAL, _PROXY = 0, 1
_TCP4, _TCP6 = 0x11, 0x21
_ADDRESSES: Final = {_TCP4: Struct(">4s4sHH"), _TCP6: Struct(">16s16sHH")}
_MAPPED: Final = "::ffff:"
_WITHOUT_ADDRESS: Final = frozenset({0x00, 0x12, 0x22, 0x31, 0x32})
"""Unspecified; and datagrams and Unix sockets, which are to be treated so where not supported."""


class ProxyHeaderError(MalformedError):
    """A connection does not begin with a header, or with an unusable header."""


class EndedError(Exception):
    """The connection was closed before its first byte, as by health checks."""


async def read_client(connection: socket.socket) -> Address | None:
    """Read the header at the beginning of a connection, and not a byte more.

    Args:
        connection: A connected, non-blocking socket that has not been read.

    Returns:
        The client's address; None if the peer speaks for itself, or does not name it.

    Raises:
        ProxyHeaderError: There is no header, or it is invalid.
        EndedError: There is no byte at all.
        OSError: The connection is broken.
    """
    fixed = await _exactly(connection, _FIXED.size, is_start=True)
    command, family, length = read_fixed(fixed)
    if length > HEADER_MAX_BYTES - _FIXED.size:
        raise ProxyHeaderError(f"it has {_FIXED.size + length} bytes, more than {HEADER_MAX_BYTES}")
    rest = await _exactly(connection, length)
    return None if command == _LOCAL else read_address(family, rest)


def read_fixed(data: bytes) -> tuple[int, int, int]:
    """Read the fixed part of a header; return command, family and the length of the rest.

    Raises:
        ProxyHeaderError: It is invalid.
    """
    _check_start(data)
    _, version_and_command, family, length = _FIXED.unpack(data)
    version, command = version_and_command >> 4, version_and_command & 0xF
    if version != _VERSION:
        raise ProxyHeaderError(f"its version is {version}, not 2")
    if command not in {_LOCAL, _PROXY}:
        raise ProxyHeaderError(f"its command {command} is not known")
    return command, family, length


def read_address(family: int, data: bytes) -> Address | None:
    """Read the address of a client out of the variable part of a header.

    Raises:
        ProxyHeaderError: The header is missing.
    """
    if family in _WITHOUT_ADDRESS:
        return None
    form = _ADDRESSES.get(family)
    if form is None:
        raise ProxyHeaderError(f"its address family {family:#04x} is not known")
    if len(data) < form.size:
        raise ProxyHeaderError(f"it has {len(data)} bytes for addresses that take {form.size}")
    source, _, port, _ = form.unpack_from(data)
    return Address(unmapped(str(ip_address(source))), port)


def unmapped(ip: str) -> str:
    """Return an IPv4 address that is written as IPv6 as such; another address unchanged.

    A client has one name, whichever way it comes: connections are counted by it.
    """
    if not ip.startswith(_MAPPED):
        return ip
    address = ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return ip if mapped is None else str(mapped)


def _check_start(data: bytes) -> None:
    """Raise an error as soon as it is certain that it is not a header."""
    if SIGNATURE.startswith(data[: len(SIGNATURE)]):
        return
    if _VERSION_1.startswith(data[: len(_VERSION_1)]):
        raise ProxyHeaderError("it is of version 1; have the load balancer send version 2")
    raise ProxyHeaderError("it is missing")


async def _exactly(connection: socket.socket, count: int, *, is_start: bool = False) -> bytes:
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        more = await loop.sock_recv(connection, count - len(data))
        if not more and is_start and not data:
            raise EndedError
        if not more:
            raise ProxyHeaderError("it ends too early")
        data += more
        if is_start:
            _check_start(data)
    return data
