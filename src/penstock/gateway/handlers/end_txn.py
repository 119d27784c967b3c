"""EndTxn (API key 26), version 5: commits of transactions of which every record was dropped.

Behaviour: the partitions are added to the transaction first, by a request over the client's
connection; if that is refused, so is the commit, with the same error. All other requests and
versions pass as the bytes they came in.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.wire import transactions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.gateway.session import Exchange, Session
    from penstock.gateway.transactions import EmptyTransactions


class EndTxnExchange:
    """One EndTxn request from its arrival to its answer."""

    __slots__ = ("_empty", "_refusal", "_session", "_transaction", "answer", "api_key",
                 "complete", "correlation_id", "frame", "ready", "transform",
                 "version")  # fmt: skip

    breaks_off = False
    unanswered = False

    def __init__(self, frame: bytes, empty: EmptyTransactions, arrived: Exchange) -> None:
        self.frame = frame
        self.api_key = arrived.api_key
        self.version = arrived.version
        self.correlation_id = arrived.correlation_id
        self.transform = arrived.transform
        self.answer: Sequence[bytes | memoryview] | None = None
        self.complete = True
        self.ready = False
        self._empty = empty
        self._refusal = 0

    def begin(self, session: Session) -> None:
        """Have partitions added if need be; `ready` is set when that is done."""
        self._session = session
        self._transaction, commit = transactions.read_end(self.frame)
        partitions = self._empty.partitions(self._transaction) if commit else {}
        if not partitions:
            self._done()
            return
        session.ask(
            partial(transactions.add_partitions, to=self._transaction, partitions=partitions),
            self._added,
        )

    def _added(self, frame: bytes) -> None:
        self._refusal = transactions.added(frame)
        if not self._refusal:
            self._empty.added(self._transaction)
        self._done()

    def _done(self) -> None:
        self.ready = True
        self._session.advance()

    def outgoing(self) -> Sequence[bytes | memoryview]:
        """Give what goes to the broker."""
        return [] if self._refusal else [self.frame]

    def abandon(self) -> None:
        """Take note that the request goes nowhere."""

    def local_answer(self) -> Sequence[bytes]:
        """Answer a request that was not sent on."""
        return [transactions.end_refused(self.correlation_id, self._refusal)]
