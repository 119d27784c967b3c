"""Requests to a URL, each bounded in time and size."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from base64 import b64encode
from functools import partial
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError, NewConnectionError
from urllib3.exceptions import TimeoutError as HTTPTimeoutError

from penstock.policies.schema_policy.registry.errors import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from urllib3.response import BaseHTTPResponse

    from penstock.policies.schema_policy.registry.settings import RegistrySettings

MAX_BYTES: Final = 8 * 1024 * 1024
"""The size of the largest answer that is read."""
_ACCEPTED: Final = (
    "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
)


class BearerTokens(Protocol):
    """Has the token that is sent with each request; see `oauth.TokenSource`."""

    def token(self, limit: float) -> str:
        """Return a token that is valid now, within this many seconds."""

    def is_refused(self, token: str) -> None:
        """Record that the registry refused a token."""


class RegistryResponse(NamedTuple):
    """What a registry answers.

    Attributes:
        status: HTTP's status code.
    """

    status: int
    body: bytes


class Endpoint:
    """One URL of a registry. It is used by one thread, and keeps one connection.

    A request runs in a separate thread, because a limit on its total time has to include everything
    that it waits for: names that do not resolve, and answers that arrive byte by byte, too. A
    request that exceeds its limit is given up, and ends by itself; until then there is no other.

    Attributes:
        url: As the settings have it.
        not_before: When it is queried again after a failure; for the owner's use.
    """

    def __init__(
        self, url: str, settings: RegistrySettings, tokens: BearerTokens | None = None
    ) -> None:
        """Send no request yet.

        Args:
            url: Where requests go.
            settings: The headers of each request, and the settings of TLS.
            tokens: The source of the token that is sent with each request, if there is a token.
        """
        self.url = url
        self._tokens = tokens
        self.not_before = float("-inf")
        self._settings = settings
        self._path = urlsplit(url).path
        self._headers = {"Accept": _ACCEPTED, "User-Agent": "penstock", **settings.headers}
        if settings.user_info:
            encoded = b64encode(settings.user_info.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._connection: HTTPConnection | None = None
        self._given_up: Thread | None = None

    def get(self, path: str, limit: float) -> RegistryResponse:
        """Send a GET request.

        Redirects are not followed: an answer of another host would be believed, and would see
        the credentials.

        Args:
            path: The part after the URL, with a query, ready for the request line.
            limit: Seconds from now until the last byte of the answer.

        Raises:
            NoAnswerError: There is no answer, it is too late, or it is too large.
        """
        headers = self._headers
        if self._tokens is None:
            return self._answer("GET", path, headers, None, limit)
        end = monotonic() + limit
        token = self._tokens.token(limit)
        headers = headers | {"Authorization": f"Bearer {token}"}
        answer = self._answer("GET", path, headers, None, max(0.0, end - monotonic()))
        if answer.status == 401:
            self._tokens.is_refused(token)
        return answer

    def post(self, body: bytes, headers: Mapping[str, str], limit: float) -> RegistryResponse:
        """Send a POST request to the URL itself, with these headers alone.

        Raises:
            NoAnswerError: As in `get`.
        """
        return self._answer("POST", "", {"User-Agent": "penstock", **headers}, body, limit)

    def _answer(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        limit: float,
    ) -> RegistryResponse:
        if self._given_up is not None and self._given_up.is_alive():
            raise NoAnswerError("still does not answer an earlier request", away=True)
        self._given_up = None
        reused = self._connection
        self._connection = None
        request = _RequestThread(reused or self._connect(limit), reused is not None, limit)
        target = self._path + path or "/"
        thread = Thread(
            target=request.run, args=(method, target, headers, body), daemon=True, name=self.url
        )
        try:
            thread.start()
        except RuntimeError:
            raise NoAnswerError(
                "is not queried: no more threads can be started", away=True
            ) from None
        thread.join(limit)
        if thread.is_alive():
            request.give_up()
            self._given_up = thread
            raise NoAnswerError(_too_late(limit), away=True, late=True)
        if request.failure is not None:
            raise request.failure
        self._connection = request.kept_connection
        assert request.answer is not None
        return request.answer

    def close(self) -> None:
        """Close the connection that is kept."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, limit: float) -> HTTPConnection:
        """Return a connection that is not open yet."""
        parts = urlsplit(self.url)
        host = str(parts.hostname)
        if parts.scheme.lower() == "http":
            return HTTPConnection(host, parts.port, timeout=limit)
        context = self._settings.tls
        assert context is not None
        return HTTPSConnection(
            host,
            parts.port,
            timeout=limit,
            ssl_context=context,
            cert_reqs=ssl.CERT_REQUIRED,
            assert_hostname=None if context.check_hostname else False,
        )


class _RequestThread:
    """A request in a separate thread.

    Attributes:
        answer: The answer, or None.
        failure: Why there is none, or None.
        kept_connection: The connection, if it can be used again.
    """

    def __init__(self, connection: HTTPConnection, reused: bool, limit: float) -> None:
        self.answer: RegistryResponse | None = None
        self.failure: NoAnswerError | None = None
        self.kept_connection: HTTPConnection | None = None
        self._connection = connection
        self._is_reused = reused
        self._lock = Lock()
        self._is_given_up = False
        self._limit = limit
        connection.timeout = limit

    def run(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> None:
        """Send it and read the answer. Never raises an exception."""
        try:
            response = self._response(partial(self._send, method, path, headers, body))
            self.answer = RegistryResponse(response.status, self._body(response))
            self.kept_connection = self._connection
        except NoAnswerError as error:
            self.failure = error
        except (TimeoutError, HTTPTimeoutError) as error:
            is_late = not isinstance(error, NewConnectionError)  # which is a timeout to urllib3
            text = _too_late(self._limit) if is_late else _reason(error)
            self.failure = NoAnswerError(text, away=True, late=is_late)
        except Exception as error:
            self.failure = NoAnswerError(_reason(error), away=True)
        if self.kept_connection is None:
            self._connection.close()

    def give_up(self) -> None:
        """End a request that is over its limit."""
        with self._lock:
            self._is_given_up = True
            open_socket = self._connection.sock
        if open_socket is not None:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def _response(self, send: Callable[[], BaseHTTPResponse]) -> BaseHTTPResponse:
        """Send the request; once more where a kept connection has been closed meanwhile."""
        if self._is_reused and self._connection.is_connected:
            self._connection.sock.settimeout(self._connection.timeout)
            try:
                return send()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                pass
        self._connection.close()
        self._connection.connect()
        return send()

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> BaseHTTPResponse:
        with self._lock:
            if self._is_given_up:
                raise NoAnswerError("is over its limit", away=True)
        self._connection.request(
            method, path, body, headers=headers, preload_content=False, decode_content=False
        )
        return self._connection.getresponse()

    @staticmethod
    def _body(response: BaseHTTPResponse) -> bytes:
        body = response.read(MAX_BYTES + 1, decode_content=False)
        if len(body) > MAX_BYTES:
            raise NoAnswerError(f"responded with more than {MAX_BYTES} bytes", away=False)
        # At the end of a body of chunks there may be more to read.
        rest = response.read(1, decode_content=False)
        if rest:
            raise NoAnswerError(f"responded with more than {MAX_BYTES} bytes", away=False)
        return body


def _too_late(limit: float) -> str:
    return f"does not answer within {limit:.3g} seconds"


def _reason(error: Exception) -> str:
    """Return the meaning of an exception, without the texts of libraries, which show objects."""
    if isinstance(error, NameResolutionError):
        return "cannot be reached: its host name is not known"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"cannot be trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"does not speak TLS as it should: {cause.reason or 'the connection ended'}"
        if isinstance(cause, OSError) and cause.strerror and not isinstance(cause, HTTPError):
            return f"cannot be reached: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return f"ends the connection before its answer does ({type(error).__name__})"
