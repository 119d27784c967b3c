"""The responses in which the gateway replaces brokers' addresses."""

from types import SimpleNamespace

from penstock.gateway.sessions.routes import API_VERSIONS, SASL_AUTHENTICATE, route


def is_readdressed(api_key: int, version: int) -> bool:
    """Return whether the routing table has addresses replaced in responses of this version."""
    if api_key in {API_VERSIONS, SASL_AUTHENTICATE}:
        return False
    return route(api_key).respond(SimpleNamespace(gateway=None), version) is not None
