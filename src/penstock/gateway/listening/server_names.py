"""Which broker a client wants, by the name in its TLS handshake (RFC 6066, server_name).

`broker-<id>.<advertised.host>` is the broker with that node id, `advertised.host` itself any of
them. Clients that send no name, as they do where they connect to an IP address, get any of them,
too. Another name ends the handshake.
"""

from __future__ import annotations

import re
import ssl
import sys
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import structlog

if TYPE_CHECKING:
    import asyncio
log = structlog.get_logger()

_LABEL: Final = re.compile(r"broker-(0|[1-9][0-9]{0,9})")
_NODE_MAX: Final = 2**31 - 1


class ServerNames:
    """The names of a gateway's brokers."""

    def __init__(self, advertised_host: str) -> None:
        self._host = advertised_host.lower().rstrip(".")
        self._nodes: WeakKeyDictionary[ssl.SSLObject, int] = WeakKeyDictionary()

    def name(self, node: int) -> str:
        """Return the name of a broker, for clients."""
        return f"broker-{node}.{self._host}"

    def attach(self, context: ssl.SSLContext) -> None:
        """Make the handshakes of a context select a broker."""
        context.sni_callback = self._named
        _log_names_that_cannot_be_read()

    def node_of(self, transport: asyncio.BaseTransport) -> int | None:
        """Return the node id of the broker that a client wants; None for any of them."""
        name = transport.get_extra_info("server_name")
        if name is not None:
            return self._find(name)
        return self._nodes.get(transport.get_extra_info("ssl_object"))

    def is_known(self, name: str) -> bool:
        """Return whether a name is that of a broker, or of any of them."""
        try:
            self._find(name)
        except KeyError:
            return False
        return True

    def _find(self, name: str) -> int | None:
        """Return the node id of a name; raise a `KeyError` if it is unknown."""
        name = name.lower().rstrip(".")
        label, _, host = name.partition(".")
        label_match = _LABEL.fullmatch(label) if host == self._host else None
        if label_match is not None and int(label_match[1]) <= _NODE_MAX:
            return int(label_match[1])
        if name != self._host:
            raise KeyError(name)
        return None

    def _named(
        self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """Handle the name of a handshake; return a TLS alert if it is unknown."""
        if name is None:
            return None
        try:
            node = self._find(name)
        except KeyError:
            pass
        else:
            if node is not None:
                self._nodes[connection] = node
            return None
        log.warning("unknown server name", name=name, expected=f"broker-<id>.{self._host}")
        return int(ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME)


def _log_names_that_cannot_be_read() -> None:
    """Log a name that is not ASCII, instead of a traceback.

    Python ends such a handshake before `sni_callback` is called, and calls only this hook.
    """
    previous_hook = sys.unraisablehook

    def hook(raised: Any) -> None:
        if isinstance(raised.exc_value, UnicodeDecodeError) and isinstance(raised.object, bytes):
            log.warning("unknown server name", name=ascii(raised.object))
        else:
            previous_hook(raised)

    if getattr(previous_hook, "__qualname__", "") != hook.__qualname__:
        sys.unraisablehook = hook
