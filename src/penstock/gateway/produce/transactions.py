"""Open transactions whose records were all dropped so far (KIP-905 with KIP-890).

With transactions version 2 a partition is added to a transaction when the broker receives its first
batch. If the broker has received none, the coordinator has no transaction, and refuses the commit.
So before such a commit the gateway adds the partitions (AddPartitionsToTxn), over the connection on
which the client sends the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from penstock.wire.transactions import Transaction

_KEPT_MAX: Final = 10_000


class EmptyTransactions:
    """The open transactions of which nothing was sent, and their partitions."""

    def __init__(self) -> None:
        self._partitions: LRUCache[Transaction, dict[str, set[int]]] = LRUCache(_KEPT_MAX)
        self._begun: LRUCache[Transaction, None] = LRUCache(_KEPT_MAX)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def sent(self, transaction: Transaction) -> None:
        """Record that a batch of a transaction is sent to the broker."""
        self._partitions.pop(transaction, None)
        self._begun[transaction] = None

    def dropped(self, transaction: Transaction, topic: str, partition: int) -> None:
        """Record that every record of a batch was dropped."""
        if transaction in self._begun:
            return
        self._partitions.setdefault(transaction, {}).setdefault(topic, set()).add(partition)

    def partitions(self, transaction: Transaction) -> dict[str, set[int]]:
        """Return the partitions, by topic, that have to be added before a commit."""
        return self._partitions.get(transaction, {})

    def added(self, transaction: Transaction) -> None:
        """Record that the partitions have been added."""
        self._partitions.pop(transaction, None)
