"""Checks `console.peers`, without contacting anything."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from penstock.configuration import Address, Configuration


def check_console_peers(configuration: Configuration) -> None:
    """Check that there is a console, and that no peer is this gateway.

    A name that resolves to this gateway is found when it answers; see `peers.Peers`.

    Raises:
        ConfigurationError: There is none, or a peer is.
    """
    peers, own = configuration.console_peers, configuration.metrics_listener
    if not peers:
        return
    where = f"{configuration.path}: console.peers"
    if own is None:
        raise ConfigurationError(f"{where} needs metrics.listener, where the console is")
    for peer in peers:
        if is_same(own, peer):
            raise ConfigurationError(
                f"{where}: {peer} is metrics.listener of this gateway: name the other gateways only"
            )


def is_same(listener: Address, peer: Address) -> bool:
    """Return whether a connection to a peer certainly ends at a listener of this machine."""
    if not listener.port or peer.port != listener.port:
        return False
    if listener.host.lower() == peer.host.lower() or _is_wildcard(peer.host):
        return True
    # A listener on 127.0.0.1 and one on 127.0.0.2 are two, but a wildcard has both.
    return _is_loopback(peer.host) and (
        _is_wildcard(listener.host) or "localhost" in {listener.host.lower(), peer.host.lower()}
    )


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
