"""Which responses the gateway searches for brokers' addresses."""

from types import SimpleNamespace

from penstock.gateway.routes import API_VERSIONS, SASL_AUTHENTICATE, route


def is_readdressed(api_key: int, version: int) -> bool:
    """Tell it of an API's version, from the table of routes."""
    if api_key in {API_VERSIONS, SASL_AUTHENTICATE}:
        return False
    return route(api_key).respond(SimpleNamespace(host=None), version) is not None
