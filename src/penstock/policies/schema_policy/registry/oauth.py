"""Tokens of an OAuth endpoint, which requests to a registry carry: the grant of client credentials.

Source: RFC 6749 (4.4, 2.3.1), and `OauthCredentialProvider` and `OauthTokenCache` of Confluent's
client, whose keys these are.
"""

from __future__ import annotations

import time
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.policies.schema_policy.registry.errors import NoAnswerError
from penstock.policy.client_credentials import InvalidTokenError, read_token, token_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.registry.endpoint import Endpoint, RegistryResponse
    from penstock.policies.schema_policy.registry.settings import OAuthSettings

SHARE_OF_LIFETIME: Final = 0.8
"""How much of a short lifetime a token is used for before another is fetched."""
FAILURE_S: Final = 1.0
"""How long no request is sent after a failure."""


class TokenSource:
    """Fetches a token, and another before it expires. Any threads may use it."""

    def __init__(
        self,
        settings: OAuthSettings,
        endpoint: Endpoint,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Prepare; nothing is requested.

        Args:
            settings: The client, and the URL of the endpoint.
            endpoint: The token endpoint; used by this alone.
            clock: Seconds.
        """
        self._settings = settings
        self._endpoint = endpoint
        self._clock = clock
        self._lock = Lock()
        self._token = ""
        self._refreshed_at = self._expires_at = self._failed_until = float("-inf")
        self._failure = ""
        self._request = token_request(settings.client_id, settings.client_secret, settings.scope)

    def token(self, limit: float) -> str:
        """Return a token that has not expired.

        Args:
            limit: Seconds that fetching a token may take.

        Raises:
            NoAnswerError: There is no token.
        """
        if self._clock() < self._refreshed_at:
            return self._token
        if not self._lock.acquire(timeout=limit):
            raise NoAnswerError("is not queried: no token was received in time", away=True)
        try:
            now = self._clock()
            if now >= self._refreshed_at:
                self._refresh(now, limit)
            return self._token
        finally:
            self._lock.release()

    def is_refused(self, token: str) -> None:
        """Fetch another token next time: the registry does not accept the current token."""
        with self._lock:
            if token == self._token:
                self._refreshed_at = self._expires_at = float("-inf")

    def close(self) -> None:
        """Close the connection."""
        self._endpoint.close()

    def _refresh(self, now: float, limit: float) -> None:
        """Fetch a token; if that fails, the token before is used until it expires."""
        if now < self._failed_until:
            if now < self._expires_at:
                return
            raise NoAnswerError(self._failure, away=True)
        try:
            token, lifetime = _read(self._endpoint.post(*self._request, limit), time.time())
        except NoAnswerError as error:
            host = urlsplit(self._settings.url).netloc
            self._failure = f"is not queried: the token endpoint at {host} {error}"
            self._failed_until = self._clock() + FAILURE_S
            if now < self._expires_at:
                return
            raise NoAnswerError(self._failure, away=True) from None
        use_seconds = max(lifetime - self._settings.buffer, 0.0) or SHARE_OF_LIFETIME * lifetime
        self._token = token
        self._refreshed_at, self._expires_at = now + use_seconds, now + lifetime


def _read(answer: RegistryResponse, now: float) -> tuple[str, float]:
    """Return the token in an answer, and for how many seconds it is good.

    Raises:
        NoAnswerError: It has none.
    """
    if answer.status != 200:
        hint = " (see schema.registry.bearer.auth.client.id and client.secret)"
        raise NoAnswerError(
            f"responded with status {answer.status}{hint if answer.status in {400, 401} else ''}",
            away=True,
        )
    try:
        return read_token(answer.body, now)
    except InvalidTokenError as error:
        raise NoAnswerError(str(error), away=True) from None
