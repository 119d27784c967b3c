"""Records whose schema, or whose rules, cannot be used: `schema.unusable` of a topic."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from cachetools import TTLCache

from penstock.policy import UndecidableException, count_event

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT: Final = "schema_unusable"
"""What such records are counted as, with `accepted` or `refused`."""
LOGGED_EVERY_S: Final = 3600.0
LINES: Final = 100
"""How many lines there may be in that time, each about another schema."""

log = logging.getLogger(__name__)


class UnusableSchemas:
    """Decides about such records, counts them, and logs each schema once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._log_cache: TTLCache[str, None] = TTLCache(LINES, LOGGED_EVERY_S, clock)

    def decide(self, text: str, count: int, *, accepts: bool) -> None:
        """Decide about records whose schema cannot be used.

        Args:
            text: Which schema cannot be used, and why.
            count: How many records have it.
            accepts: Whether they pass.

        Raises:
            UndecidableException: They do not.
        """
        count_event(EVENT, "accepted" if accepts else "refused", count)
        if not accepts:
            raise UndecidableException(text)
        if text not in self._log_cache and len(self._log_cache) < LINES:
            self._log_cache[text] = None
            log.warning("%s; its records are accepted (schema.unusable=accept)", text)
