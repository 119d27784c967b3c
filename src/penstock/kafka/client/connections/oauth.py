"""Tokens of SASL OAUTHBEARER, for aiokafka."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiokafka.abc import AbstractTokenProvider

from penstock.kafka.client.connections.daemon_threads import DaemonThreads
from penstock.kafka.client.connections.tokens import TokenError
from penstock.kafka.client.errors import LoginError

if TYPE_CHECKING:
    from penstock.kafka.client.connections.tokens import OAuthTokens

_THREADS_MAX: Final = 16


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Hands tokens to aiokafka."""

    def __init__(self, tokens: OAuthTokens) -> None:
        self._tokens = tokens
        # Not threads of the event loop's executor: an endpoint may let them wait for long.
        self._threads = DaemonThreads("penstock-tokens", _THREADS_MAX)

    async def token(self) -> str:
        """Return a token.

        Raises:
            LoginError: There is no token.
        """
        loop = asyncio.get_running_loop()
        try:
            return (await loop.run_in_executor(self._threads, self._tokens.token)).text
        except TokenError as error:
            raise LoginError(str(error), retriable=error.retriable) from None

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of the token (KIP-342)."""
        return dict(self._tokens.extensions)
