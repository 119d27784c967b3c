"""The other gateways of `console.peers`: reads their states again and again, each by itself."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from penstock.gateway.observing.console.counted_over_time import CountedOverTime
from penstock.gateway.observing.console.merging import Named, held_share
from penstock.gateway.observing.console.peer_request import PeerAddress, PeerError
from penstock.gateway.observing.console.peer_state import PATH, GatewayState, decode
from penstock.gateway.observing.metrics.counts import CountedTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.configuration import Address

log = structlog.get_logger()

EVERY_S: Final = 3.0
"""How often a peer is read."""
SKEW_S: Final = 2.0
"""Times of a clock that differs by more are shown by the clock of this gateway."""
_OWN_ERROR: Final = "an error of this gateway"
_NOT_READ: Final = "it has not been read yet"


class Peer:
    """Another gateway.

    Attributes:
        name: Its address, as it is configured.
        state: What it said last; None before its first answer.
        why_not: Why it does not answer; empty if it does.
        answered_at: When it answered last, in seconds since the epoch.
        silent_since: Since when it does not answer; None if it does.
        is_double: Whether it is this gateway, or another peer: then it does not count.
        counted: Its counts over time.
    """

    def __init__(self, address: Address) -> None:
        """Read nothing yet."""
        self.name = str(address)
        self.state: GatewayState | None = None
        self.why_not = _NOT_READ
        self.answered_at: float | None = None
        self.silent_since: float | None = None
        self.is_double = False
        self.counted = CountedOverTime()
        self._connection = PeerAddress(address)

    @property
    def run(self) -> str:
        """The id of its run; empty before its first answer."""
        return self.state.head["run"] if self.state is not None else ""

    async def read(self, token: str | None) -> GatewayState:
        """Return what it says now.

        Raises:
            PeerError: It does not answer, or not as a gateway does.
        """
        return await decode(await self._connection.fetch(PATH, token))

    def as_json(self) -> dict[str, Any]:
        """Return it as the console's pages get it."""
        return {
            **about(self.name, self.state),
            "answers": not self.why_not,
            "why_not": self.why_not,
            "since": None if self.silent_since is None else round(self.silent_since, 3),
            "answered": None if self.answered_at is None else round(self.answered_at, 3),
            "double": self.is_double,
        }


class Peers:
    """All of them.

    Attributes:
        all: The peers, in the order of the key.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        token: str | None,
        run: str,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        every_s: float = EVERY_S,
    ) -> None:
        """Prepare; `run` reads them.

        Args:
            token: The token of this gateway's listener, which is that of all.
            run: The id of this gateway's run.
            now: Returns the time in seconds since the epoch.
            clock: Returns the monotonic time in seconds.
            every_s: How often a peer is read.
        """
        self.all = [Peer(address) for address in addresses]
        self.answered: Callable[[Peer], None] = lambda _: None
        self._token = token
        self._run = run
        self._now = now
        self._clock = clock
        self._every_s = every_s

    @property
    def known(self) -> list[Named]:
        """Those that have answered, also if they no longer do: what they counted remains."""
        return [
            Named(peer.name, peer.state)
            for peer in self.all
            if peer.state is not None and not peer.is_double
        ]

    @property
    def answering(self) -> list[Named]:
        """Those that answer."""
        return [
            Named(peer.name, peer.state)
            for peer in self.all
            if peer.state is not None and not peer.is_double and not peer.why_not
        ]

    @property
    def silent(self) -> list[Peer]:
        """Those that do not answer."""
        return [peer for peer in self.all if peer.why_not and not peer.is_double]

    async def run(self) -> None:
        """Read all peers, again and again."""
        await asyncio.gather(*map(self._follow, self.all))

    async def _follow(self, peer: Peer) -> None:
        while True:
            await self.read(peer)
            await asyncio.sleep(self._every_s)

    async def read(self, peer: Peer) -> None:
        """Read a peer once; log a change."""
        last_reason = peer.why_not
        try:
            self._take(peer, await peer.read(self._token))
            self.answered(peer)
        except PeerError as error:
            self._failed(peer, str(error))
        except Exception:
            if last_reason != _OWN_ERROR:
                log.exception("an error of the gateway", action="peer", peer=peer.name)
            self._failed(peer, _OWN_ERROR)
        else:
            if last_reason not in {"", _NOT_READ} and not peer.is_double:
                log.info("a peer answers again", peer=peer.name)

    def _failed(self, peer: Peer, why_not: str) -> None:
        if peer.why_not in {"", _NOT_READ}:
            log.warning("a peer does not answer", peer=peer.name, reason=why_not)
            peer.silent_since = self._now()
        peer.why_not = why_not

    def _take(self, peer: Peer, state: GatewayState) -> None:
        now = self._now()
        run = state.head["run"]
        others = (other.run for other in self.all[: self.all.index(peer)] if not other.is_double)
        is_double = run == self._run or run in others
        if is_double and not peer.is_double:
            log.warning("a peer is this gateway or another peer", peer=peer.name)
        peer.is_double = is_double
        peer.why_not = ""
        peer.silent_since = None
        peer.answered_at = now
        peer.state = _by_clock(state, now)
        if not is_double:
            peer.counted.put(self._clock(), run, CountedTotals(**state.head["totals"]))


def about(name: str, state: GatewayState | None) -> dict[str, Any]:
    """Return what is shown of each gateway, as JSON."""
    if state is None:
        return {"name": name, "gateway": None}
    head = state.head
    return {
        "name": name,
        "gateway": head["gateway"],
        "ready": head["ready"],
        "connections": sum(head["connections"]["states"].values()),
        "held_share": held_share(head),
        "records": head["totals"]["records"],
        "reload": head["reload"],
    }


def _by_clock(state: GatewayState, now: float) -> GatewayState:
    """Return a state with the times of this gateway's clock, none of them in the future."""
    behind = now - state.head["at"]
    shift = round(behind) if abs(behind) > SKEW_S else 0
    reload = state.head["reload"]
    if reload is not None:
        reload["at"] = min(now, reload["at"] + shift)
    about_it = state.head["gateway"]
    about_it["started"] = min(now, about_it["started"] + shift)
    for row in state.rows:
        row["last"] = min(now, row["last"] + shift)
        row["first"] = min(row["last"], row["first"] + shift)
        row["minutes"] = [[minute + round(shift / 60), count] for minute, count in row["minutes"]]
    return state
