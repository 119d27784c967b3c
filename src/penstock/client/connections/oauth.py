"""Tokens of SASL OAUTHBEARER, as aiokafka asks for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka.abc import AbstractTokenProvider

from penstock.client.errors import LoginError
from penstock.cluster.tokens import TokenError

if TYPE_CHECKING:
    from penstock.cluster.tokens import Tokens


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Hands tokens to aiokafka."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        """Return a token.

        Raises:
            LoginError: There is none.
        """
        try:
            return (await asyncio.to_thread(self._tokens.token)).text
        except TokenError as error:
            raise LoginError(str(error), retriable=error.retriable) from None

    def extensions(self) -> dict[str, str]:
        """Return what is sent along with the token (KIP-342)."""
        return dict(self._tokens.extensions)
