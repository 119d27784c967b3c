"""Work on a long request or response of a connection, in slices (`turns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.context.turns import Turns, Work
    from penstock.wire.slices import Slices, T

log = structlog.get_logger()


class SlicedWork:
    """The work on a message; there is never more than one at a time.

    Attributes:
        size: The memory that the work uses; 0 without work.
    """

    __slots__ = ("_on_failure", "_side", "_turns", "_work", "size")

    def __init__(self, turns: Turns, side: str, on_failure: Callable[[], None]) -> None:
        """Begin without work.

        Args:
            turns: Does the slices.
            side: Whose messages these are, for the log: `client` or `broker`.
            on_failure: Called if the work raises an exception; it has to close the connection.
        """
        self._turns = turns
        self._side = side
        self._on_failure = on_failure
        self._work: Work | None = None
        self.size = 0

    @property
    def is_running(self) -> bool:
        """Whether there is work."""
        return self._work is not None

    def begin(self, slices: Slices[T], on_done: Callable[[T, bool], None], size: int) -> bool:
        """Begin to work.

        Args:
            slices: The work.
            on_done: Called with the result, and whether the work had to wait for further turns.
            size: The memory that it uses.

        Returns:
            Whether it goes on in further turns. If not, `on_done` has been called.

        Raises:
            Exception: What the first slice raises.
        """

        def on_result(result: T) -> None:
            has_waited = self.is_running
            self._work, self.size = None, 0
            on_done(result, has_waited)

        begun = self._turns.begin(slices, on_result, self._failed)
        if begun is None:
            return False
        self._work, self.size = begun, size
        return True

    def stop(self) -> None:
        """Stop; `on_done` is not called."""
        work, self._work, self.size = self._work, None, 0
        if work is not None:
            work.cancel()

    def _failed(self, error: Exception) -> None:
        self._work, self.size = None, 0
        if isinstance(error, WireError):
            log.warning("closing a connection", side=self._side, reason=str(error))
        else:
            log.error("closing a connection after an error of the gateway", exc_info=error)
        self._on_failure()
