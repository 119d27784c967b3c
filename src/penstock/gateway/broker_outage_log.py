"""Logs that brokers cannot be reached: for each of them once a minute, and that they can again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.configuration import Address

log = structlog.get_logger()

EVERY_S: Final = 60.0
"""A broker has a line this often while it cannot be reached."""
LINES_MAX: Final = 4
"""Of a broker that comes and goes, for as long as that: two outages."""
ADDRESSES_MAX: Final = 10_000


@dataclass(slots=True)
class _Outage:
    """Failed attempts to connect to an address, in order.

    Attributes:
        since: When the first one failed.
        minute: When the lines began that are counted in `lines`.
        lines: How many say that it began or is over.
        logged_at: When the last line was written.
        attempts: How many failed.
        not_logged: How many failed since the last line.
        is_logged: Whether it has a line.
        is_over: Whether an attempt has worked since.
    """

    since: float
    minute: float
    lines: int = 0
    logged_at: float = 0.0
    attempts: int = 0
    not_logged: int = 0
    is_logged: bool = False
    is_over: bool = False

    def begin(self, now: float) -> None:
        """Begin again, after it was over."""
        self.since, self.attempts, self.is_logged, self.is_over = now, 0, False, False

    def is_due(self, now: float) -> bool:
        """Return whether there is to be a line for an attempt that fails now."""
        if self.is_logged:
            return now - self.logged_at >= EVERY_S
        if now - self.minute >= EVERY_S:
            self.minute, self.lines = now, 0
        return self.lines < LINES_MAX


class BrokerOutageLog:
    """Logs the first attempt that fails, and then the number of failures in each minute.

    Clients retry often, each with several connections: hundreds of attempts a minute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            clock: Returns seconds.
        """
        self._clock = clock
        self._outages: dict[Address, _Outage] = {}

    def failed(self, node: int | None, address: Address, reason: str) -> None:
        """Take note of an attempt that failed.

        Args:
            node: The broker's id; None where any broker of the cluster was wanted.
        """
        now = self._clock()
        outage = self._outages.get(address)
        if outage is None:
            if len(self._outages) >= ADDRESSES_MAX:
                self._outages.clear()
            outage = self._outages[address] = _Outage(now, now)
        elif outage.is_over:
            outage.begin(now)
        outage.attempts += 1
        is_first = not outage.is_logged and not outage.not_logged
        outage.not_logged += 1
        if not outage.is_due(now):
            return
        log.warning(
            "broker cannot be reached",
            node=node,
            address=str(address),
            reason=reason,
            **({} if is_first else {"attempts": outage.not_logged}),
        )
        outage.lines += not outage.is_logged
        outage.is_logged, outage.logged_at, outage.not_logged = True, now, 0

    def reached(self, address: Address) -> None:
        """Take note of an attempt that worked."""
        outage = self._outages.get(address)
        if outage is None or outage.is_over:
            return
        outage.is_over = True
        if outage.is_logged:
            log.info(
                "broker can be reached again",
                address=str(address),
                attempts=outage.attempts,
                after_s=round(self._clock() - outage.since, 1),
            )
            outage.lines += 1
            outage.not_logged = 0
