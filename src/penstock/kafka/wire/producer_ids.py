"""The id and epoch by which a broker identifies a producer (KIP-98)."""

from __future__ import annotations

from typing import NamedTuple


class ProducerIdAndEpoch(NamedTuple):
    """The id and epoch of a producer.

    Attributes:
        epoch: The epoch of the id: only the producer with the largest epoch can write.
    """

    producer_id: int
    epoch: int
