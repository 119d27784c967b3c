"""Work on a long request or response of a connection, in slices (`turns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from penstock.kafka.wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.context.turns import Turns, Work
    from penstock.kafka.wire.slices import Slices, T

log = structlog.get_logger()


class SlicedWork:
    """The work on a message; there is never more than one at a time.

    Without work it keeps no callback: a session that kept a method of its own in this way would be
    part of a cycle, and would live until Python's collector runs.

    Attributes:
        is_running: Whether there is work.
        size: The memory that the work uses; 0 without work.
    """

    __slots__ = ("_side", "_work", "is_running", "size")

    def __init__(self, side: str) -> None:
        """Begin without work.

        Args:
            side: Whose messages these are, for the log: `client` or `broker`.
        """
        self._side = side
        self._work: Work | None = None
        self.is_running = False
        self.size = 0

    def begin(
        self,
        turns: Turns,
        slices: Slices[T],
        on_done: Callable[[T, bool], None],
        on_failure: Callable[[], None],
        size: int,
    ) -> bool:
        """Begin to work.

        Args:
            turns: Does the slices.
            on_done: Called with the result, and whether the work had to wait for further turns.
            on_failure: Called if the work raises an exception; it has to close the connection.
            size: The memory that it uses.

        Returns:
            Whether it continues in further turns. If not, `on_done` has been called.

        Raises:
            Exception: What the first slice raises.
        """

        def on_result(result: T) -> None:
            has_waited = self.is_running
            self._end()
            on_done(result, has_waited)

        def on_error(error: Exception) -> None:
            self._end()
            if isinstance(error, WireError):
                log.warning("closing a connection", side=self._side, reason=str(error))
            else:
                log.error("closing a connection after an error of the gateway", exc_info=error)
            on_failure()

        work = turns.begin(slices, on_result, on_error)
        if work is None:
            return False
        self._work, self.is_running, self.size = work, True, size
        return True

    def stop(self) -> None:
        """Stop; `on_done` is not called."""
        work = self._work
        self._end()
        if work is not None:
            work.cancel()

    def _end(self) -> None:
        self._work, self.is_running, self.size = None, False, 0
