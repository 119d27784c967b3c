"""Tokens of SASL OAUTHBEARER, for aiokafka."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aiokafka.abc import AbstractTokenProvider

from penstock.kafka.client.connections.tokens import TokenError
from penstock.kafka.client.errors import LoginError

if TYPE_CHECKING:
    from penstock.kafka.client.connections.tokens import OAuthTokens


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Hands tokens to aiokafka."""

    def __init__(self, tokens: OAuthTokens) -> None:
        self._tokens = tokens
        # Not a thread of the event loop's executor: an endpoint may let it wait for long.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-tokens")

    async def token(self) -> str:
        """Return a token.

        Raises:
            LoginError: There is no token.
        """
        loop = asyncio.get_running_loop()
        try:
            return (await loop.run_in_executor(self._thread, self._tokens.token)).text
        except TokenError as error:
            raise LoginError(str(error), retriable=error.retriable) from None

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of the token (KIP-342)."""
        return dict(self._tokens.extensions)
