"""Opens connections to brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from penstock.configuration import Address


class ConnectError(Exception):
    """A broker cannot be reached; the text has the reason."""


async def connect(
    address: Address,
    tls: ssl.SSLContext | None,
    protocol: Callable[[], asyncio.BaseProtocol],
    timeout_s: float,
) -> asyncio.Transport:
    """Connect to a broker.

    Args:
        tls: The TLS context of connections to the cluster; None without TLS.
        protocol: Makes the protocol of the connection.
        timeout_s: How long that may take, in seconds.

    Raises:
        ConnectError: It does not work, or not in time.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await open_transport(address, tls, protocol)
    except (OSError, TimeoutError) as error:
        raise connect_error(error) from None


def connect_error(error: OSError | TimeoutError) -> ConnectError:
    """Return what is reported about an error."""
    return ConnectError(str(error) or type(error).__name__)


async def open_transport(
    address: Address, tls: ssl.SSLContext | None, protocol: Callable[[], asyncio.BaseProtocol]
) -> asyncio.Transport:
    """Connect to a broker, however long it takes.

    Raises:
        OSError: It does not work.
    """
    name = address.host if tls else None
    transport, _ = await asyncio.get_running_loop().create_connection(
        protocol, address.host, address.port, ssl=tls, server_hostname=name
    )
    return transport
