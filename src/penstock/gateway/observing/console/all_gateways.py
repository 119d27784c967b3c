"""A gateway and its peers (`console.peers`), as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.gateway.observing.console import state
from penstock.gateway.observing.console.counted_over_time import (
    NOTHING,
    CountedOverTime,
    counted_at,
)
from penstock.gateway.observing.console.history import FigureHistory
from penstock.gateway.observing.console.merged_refusals import MergedRefusals
from penstock.gateway.observing.console.merging import (
    Named,
    add_counts,
    merge_figures,
    merge_reloads,
    merge_topics,
)
from penstock.gateway.observing.console.peers import EVERY_S, Peer, Peers, about
from penstock.gateway.observing.console.plan_comparison import PlanComparison
from penstock.gateway.observing.console.recent_refusals import ROWS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.gateway.observing.console.figures import ConsoleFigures
    from penstock.gateway.observing.console.peer_state import GatewayState
    from penstock.gateway.observing.console.recent_refusals import RefusalRow
    from penstock.gateway.observing.metrics.counts import CountedTotals

OWN: Final = "this gateway"
BEHIND_S: Final = EVERY_S + 1
"""Rates are those of so many seconds ago: by then all peers that answer have been read."""


class AllGateways:
    """What the console shows of all gateways.

    Attributes:
        peers: The other gateways.
        refusals: The rows of refusals, merged.
        history: The figures of all, as they were `BEHIND_S` ago.
        comparison: The topics whose gateways enforce different plans.
    """

    def __init__(self, peers: Peers, clock: Callable[[], float], timestamp: float) -> None:
        """Begin.

        Args:
            clock: Returns the monotonic time in seconds.
            timestamp: The time in seconds since the epoch.
        """
        self.peers = peers
        self.refusals = MergedRefusals()
        self._own_counted = CountedOverTime()
        self.history = FigureHistory(NOTHING, clock() - BEHIND_S, timestamp - BEHIND_S)
        self.comparison = PlanComparison(clock)
        peers.answered = self._answered

    def _answered(self, peer: Peer) -> None:
        if peer.state is None or peer.is_double:
            self.refusals.replace(peer.name, (), 0)
        else:
            self.refusals.replace(peer.name, peer.state.rows, peer.state.head["others"])

    def refused(
        self, rows: Iterable[RefusalRow], all_rows: Callable[[], Iterable[RefusalRow]], others: int
    ) -> None:
        """Take the refusals of this gateway.

        Args:
            rows: The rows that changed.
            all_rows: Returns all rows.
            others: How many refusals have no row.
        """
        self.refusals.put(OWN, [row.as_json() for row in rows], others)
        if self.refusals.count_of(OWN) > 2 * ROWS_MAX:
            self.refusals.replace(OWN, [row.as_json() for row in all_rows()], others)

    def sample(self, run: str, totals: CountedTotals, clock: float, timestamp: float
               ) -> ConsoleFigures | None:  # fmt: skip
        """Take the counts of this gateway; return a new point of all, if it is complete."""
        self._own_counted.put(clock, run, totals)
        peer_counts = [peer.counted for peer in self.peers.all]
        moment = clock - BEHIND_S
        return self.history.sample(
            counted_at(moment, [self._own_counted, *peer_counts]), moment, timestamp - BEHIND_S
        )

    async def figures(self, own: GatewayState) -> dict[str, Any]:
        """Return the data of the regular events, but for the time."""
        this = Named(OWN, own)
        gateways = [this, *self.peers.known]
        return {
            **merge_figures(
                [this, *self.peers.answering],
                [*map(_silence, self.peers.silent), *self.comparison.texts],
            ),
            "rates": self.history.now.as_json(),
            "totals": add_counts(gateway.state.head["totals"]["records"] for gateway in gateways),
            "topics": state.topics(await merge_topics(gateways)),
            "gateways": self._list(own),
        }

    def compare_plans(self, own: GatewayState) -> None:
        """Compare the plans of this gateway with those of the peers that answer."""
        self.comparison.look([Named(OWN, own), *self.peers.answering])

    def reload(self, own: GatewayState) -> dict[str, Any] | None:
        """Return the reload of all that is shown."""
        return merge_reloads([Named(OWN, own), *self.peers.answering])

    def _list(self, own: GatewayState) -> list[dict[str, Any]]:
        first = {
            **about(OWN, own),
            "answers": True,
            "why_not": "",
            "since": None,
            "answered": own.head["at"],
            "double": False,
        }
        return [first, *(peer.as_json() for peer in self.peers.all)]


def _silence(peer: Peer) -> str:
    return f"{peer.name} does not answer: {peer.why_not}"
