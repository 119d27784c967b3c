"""Transactions of which every record was dropped so far (KIP-905 with KIP-890).

With transactions 2 a partition joins a transaction when its first batch reaches the broker.
Where none of a transaction's batches got there, the coordinator knows of no transaction and
refuses to commit it. So before such a commit goes through, its partitions are added, over the
client's own connection to the coordinator: the one on which it sends the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from penstock.wire.transactions import Transaction

_KEPT_MAX: Final = 10_000


class EmptyTransactions:
    """The open transactions to which nothing was sent, and the partitions they were about."""

    def __init__(self) -> None:
        self._partitions: LRUCache[Transaction, dict[str, set[int]]] = LRUCache(_KEPT_MAX)
        self._begun: LRUCache[Transaction, None] = LRUCache(_KEPT_MAX)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def sent(self, transaction: Transaction) -> None:
        """Take note that a batch of a transaction goes to the broker."""
        self._partitions.pop(transaction, None)
        self._begun[transaction] = None

    def dropped(self, transaction: Transaction, topic: str, partition: int) -> None:
        """Take note that of a batch of a transaction nothing goes to the broker."""
        if transaction in self._begun:
            return
        self._partitions.setdefault(transaction, {}).setdefault(topic, set()).add(partition)

    def partitions(self, transaction: Transaction) -> dict[str, set[int]]:
        """Return the partitions, by topic, that have to be added before a commit; mostly none."""
        return self._partitions.get(transaction, {})

    def added(self, transaction: Transaction) -> None:
        """Take note that the coordinator knows of them now."""
        self._partitions.pop(transaction, None)
