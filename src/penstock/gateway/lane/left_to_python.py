"""Logs how many topics native threads leave to Python because their producers have state."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Collection

log = structlog.get_logger()

LOG_EVERY_S: Final = 60.0
"""Topics may come and go with each batch."""
_NAMED_MAX: Final = 3


class LeftToPython:
    """A line of the log when the number of these topics has changed, at most once a minute."""

    def __init__(self) -> None:
        """Begin without such topics."""
        self._logged = 0
        self._logged_at = float("-inf")

    def look(self, topics: Collection[str], now: float) -> None:
        """Log how many there are, if that has changed since it was logged last.

        Args:
            now: The monotonic time in seconds.
        """
        if len(topics) == self._logged or now - self._logged_at < LOG_EVERY_S:
            return
        self._logged, self._logged_at = len(topics), now
        log.info(
            "topics of which Python forwards all batches: sequence numbers of their producers "
            "may have to change, because records were dropped or may be",
            count=len(topics),
            among_them=list(islice(topics, _NAMED_MAX)),
        )
