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
ADDRESSES_MAX: Final = 10_000


@dataclass(slots=True)
class _Outage:
    """Attempts to connect to an address that failed, one after the other."""

    since: float
    logged_at: float
    attempts: int = 1
    not_logged: int = 0


class BrokerOutageLog:
    """Writes a line for the first attempt that fails, and then what happened in each minute.

    Clients try again and again, each with connections of its own: hundreds of attempts a minute.
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
            address: Its address.
            reason: The error.
        """
        now = self._clock()
        outage = self._outages.get(address)
        if outage is None:
            if len(self._outages) >= ADDRESSES_MAX:
                self._outages.clear()
            outage = self._outages[address] = _Outage(now, now)
        else:
            outage.attempts += 1
            outage.not_logged += 1
            if now - outage.logged_at < EVERY_S:
                return
            outage.logged_at = now
        log.warning(
            "broker cannot be reached",
            node=node,
            address=str(address),
            reason=reason,
            **({"attempts": outage.not_logged} if outage.not_logged else {}),
        )
        outage.not_logged = 0

    def reached(self, address: Address) -> None:
        """Take note of an attempt that worked."""
        outage = self._outages.pop(address, None)
        if outage is not None:
            log.info(
                "broker can be reached again",
                address=str(address),
                attempts=outage.attempts,
                after_s=round(self._clock() - outage.since, 1),
            )
