"""The states of a partition's batch while its Produce request is handled, and their order.

Most batches stay `UNCHANGED`, and only the exchange of their request has a state that changes
(`gateway.context.exchange`). The other states are those of intercepted batches
(`intercepted.batches`), and of batches that the gateway answers itself. `PENDING` is not followed
by `SENT`: a batch that may lose records is not sent before it is known which.

A decided batch also has a state beyond its request: `producer_state.producer.batch`.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class PartitionState(Enum):
    """The state of a partition's batch.

    Attributes:
        following: The states that may follow it.
    """

    UNCHANGED = auto()
    """It is sent as it is, unless a verdict refuses or replaces it."""
    UNJUDGED = auto()
    """Its topic has no policies; its sequence numbers may have to be changed."""
    PENDING = auto()
    """It needs a verdict, or the result of its first attempt, before it is sent."""
    JUDGED = auto()
    """There is a verdict; its sequence numbers may have to be changed."""
    REPLACED = auto()
    """The verdict replaces it without dropping a record, so that its sequence numbers stay."""
    DECIDED = auto()
    """It is decided which records and sequence numbers the broker gets (`Decision`)."""
    SENT = auto()
    """It is sent to the broker, or the rest of it."""
    DUE = auto()
    """Nothing of it is sent; it gets its response when all batches before it have theirs."""
    ANSWERED = auto()
    """It has a response of the gateway's own, and is not sent."""

    following: frozenset[PartitionState]

    __hash__ = object.__hash__  # that of Enum is written in Python


TRANSITIONS: Final[dict[PartitionState, set[PartitionState]]] = {
    PartitionState.UNCHANGED: {
        PartitionState.UNJUDGED,
        PartitionState.PENDING,
        # Records are dropped of a batch without sequence numbers.
        PartitionState.JUDGED,
        PartitionState.REPLACED,
        PartitionState.ANSWERED,
    },
    # A damaged batch is sent without a decision, since the broker refuses it. So is a batch whose
    # sequence numbers are not changed.
    PartitionState.UNJUDGED: {PartitionState.DECIDED, PartitionState.SENT, PartitionState.ANSWERED},
    # A retry may have been decided when it was received first.
    PartitionState.PENDING: {
        PartitionState.JUDGED,
        PartitionState.DECIDED,
        PartitionState.ANSWERED,
    },
    # A batch whose sequence numbers are removed needs no decision.
    PartitionState.JUDGED: {PartitionState.DECIDED, PartitionState.SENT, PartitionState.ANSWERED},
    PartitionState.REPLACED: {PartitionState.SENT, PartitionState.ANSWERED},
    PartitionState.DECIDED: {PartitionState.SENT, PartitionState.DUE, PartitionState.ANSWERED},
    # Another batch of a request that is sent as a whole, or not at all, could not be sent.
    PartitionState.SENT: {PartitionState.ANSWERED},
    PartitionState.DUE: {PartitionState.ANSWERED},
    PartitionState.ANSWERED: set(),
}
"""The legal transitions. Every other transition is an error of the gateway."""

for _state, _following in TRANSITIONS.items():
    _state.following = frozenset(_following)
