"""Whether a TCP connection ends by a reset (RST) or by the end of its stream (FIN).

A broker that is down refuses connections: to a client that is a failure of the network. A gateway
accepts the connection, and finds out afterwards. A client that then sees the end of the stream
before its first response may take it for a broker that wants a login: franz-go fails the records
(`ErrFirstReadEOF` in kgo/errors.go), and tries again after a reset (`isRetryableBrokerErr`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_RESET: Final = struct.pack("ii", 1, 0)
_END: Final = struct.pack("ii", 0, 0)


def reset_on_close(transport: asyncio.Transport, is_reset: bool) -> None:
    """Set how a connection ends, also if the process is killed.

    Args:
        transport: The connection. A closed connection stays as it is.
        is_reset: Whether by a reset, which discards unsent bytes.
    """
    transport_socket = transport.get_extra_info("socket")
    if transport_socket is None:
        return
    with contextlib.suppress(OSError, ValueError):  # uvloop raises the latter for a closed socket
        transport_socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET if is_reset else _END
        )
