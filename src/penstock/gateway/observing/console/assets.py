"""The files for browsers: they are part of the package, and load nothing from other hosts."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from penstock.gateway.observing.metrics.http_server import HttpResponse

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Content-Security-Policy: nothing inline, nothing from other hosts, and no script makes HTML of a
text: input of clients, such as their ids, always remains text."""
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    # Not `no-referrer`: with that, browsers do not send the origin of a form.
    ("Referrer-Policy", "same-origin"),
)
"""Of all that the console answers."""
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE: Final = "console.html"
LOGIN: Final = "login.html"
PUBLIC: Final = (
    "console.css",
    "console.js",
    "address.js",
    "charts.js",
    "export.js",
    "reasons.js",
    "tables.js",
    "words.js",
    "icon.svg",
)
"""Served without a login: the page to log in needs some of it."""


_LOG_OUT: Final = b'action="logout" hidden', b'action="logout"'
_WRONG: Final = b"<!-- wrong -->"
_WRONG_TOKEN: Final = b'<p class="bad" role="alert">This is not the token.</p>'


def asset(name: str, status: int = 200) -> HttpResponse:
    """Return a file of the folder `page`."""
    body = files("penstock.gateway.observing.console").joinpath("page", name).read_bytes()
    return HttpResponse(status, body, _TYPES[name.rpartition(".")[2]], HEADERS)


def page(*, can_log_out: bool) -> HttpResponse:
    """Return the console's page."""
    response = asset(PAGE)
    return response._replace(body=response.body.replace(*_LOG_OUT)) if can_log_out else response


def login(*, was_wrong: bool = False) -> HttpResponse:
    """Return the page to log in."""
    response = asset(LOGIN, 401)
    return (
        response._replace(body=response.body.replace(_WRONG, _WRONG_TOKEN))
        if was_wrong
        else response
    )
