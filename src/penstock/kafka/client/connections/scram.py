"""SCRAM logins: aiokafka's, with limits on the iterations that a broker demands."""

from __future__ import annotations

from typing import Final

from aiokafka.conn import ScramAuthenticator

from penstock.kafka.client.errors import LoginError

ITERATIONS_MIN: Final = 4096
"""As in Java: with fewer, a password is easily guessed from an exchange that was overheard."""
ITERATIONS_MAX: Final = 1_000_000
"""They take a second or less; with more, a server could occupy the processor."""


class LimitedScramAuthenticator(ScramAuthenticator):  # type: ignore[misc]
    """The steps of a SCRAM login."""

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        """Hash the password; nothing that depends on it was sent before.

        Raises:
            LoginError: The iterations are too few or too many.
        """
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise LoginError(
                f"the broker demands {iterations} iterations of SCRAM; "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            )
        super().create_salted_password(salt, iterations)
