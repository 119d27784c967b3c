"""The requests of a connection that are not sent to the broker yet, in the client's order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.gateway.context.exchange import ExchangeState, Held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.context.exchange import Exchange, JudgingPolicies


class PendingRequests:
    """Requests that wait: for a decision, or for a request before them.

    A request behind an exclusive request is not judged before that is done: it may change the
    policies.
    """

    __slots__ = ("_exclusive_count", "_not_started", "_undecided", "exchanges")

    def __init__(self) -> None:
        self.exchanges: deque[Exchange] = deque()
        self._exclusive_count = 0
        self._not_started: deque[Held] = deque()
        self._undecided: deque[Held] = deque()

    @property
    def may_change_policies(self) -> bool:
        """Whether one of the requests may change the policies of topics."""
        return bool(self._not_started or self._exclusive_count)

    @property
    def has_undecided(self) -> bool:
        """Whether the decision about a Produce request is missing."""
        return bool(self._undecided)

    def policies(self) -> Sequence[JudgingPolicies]:
        """Return the policies of the requests; after a reload there may be two sets."""
        policy_sets = (exchange.policies for exchange in self.exchanges)
        return list(
            {id(policies): policies for policies in policy_sets if policies is not None}.values()
        )

    def add(self, exchange: Exchange) -> None:
        """Add a request that is only forwarded, behind the others."""
        self.exchanges.append(exchange)

    def add_held(self, exchange: Held) -> bool:
        """Add a request that is held, behind the others; return whether it can start now."""
        behind_exclusive = self.may_change_policies
        self.exchanges.append(exchange)
        self._exclusive_count += exchange.is_exclusive
        if exchange.is_judged:
            self._undecided.append(exchange)
        if behind_exclusive and exchange.is_judged:
            self._not_started.append(exchange)
            return False
        return True

    def discard_last(self, exchange: Exchange) -> None:
        """Take the last request out, if it is this."""
        if self.exchanges and self.exchanges[-1] is exchange:
            self.exchanges.pop()

    def take_ready(self) -> Exchange | None:
        """Take the first request out, if it can be sent now."""
        if not self.exchanges or self.exchanges[0].state is not ExchangeState.READY:
            return None
        self._exclusive_count -= self.exchanges[0].is_exclusive
        return self.exchanges.popleft()

    def decide_next(self) -> bool:
        """Decide the next judged request; return whether it is decided."""
        if not self._undecided:
            return False
        exchange = self._undecided[0]
        if not exchange.decide(is_next=self.exchanges[0] is exchange):
            return False
        self._undecided.popleft()
        return True

    def first_if_exclusive(self) -> Held | None:
        """Return the first request, if it is exclusive."""
        first = self.exchanges[0] if self.exchanges else None
        return first if isinstance(first, Held) and first.is_exclusive else None

    def start_next(self) -> None:
        """Start the requests that waited for an exclusive one, up to the next exclusive one."""
        if not self._not_started:
            return
        for exchange in list(self.exchanges):
            if exchange.is_exclusive:
                return
            if self._not_started and exchange is self._not_started[0]:
                self._not_started.popleft().start()

    def cancel(self) -> Sequence[JudgingPolicies]:
        """Cancel the requests, and take them out; return their policies."""
        policies = self.policies()
        for exchange in self.exchanges:
            exchange.cancel()
        self.exchanges.clear()
        self._exclusive_count = 0
        self._not_started.clear()
        self._undecided.clear()
        return policies
