"""How much a writer sends at a time, and how long it waits."""

from __future__ import annotations

from typing import NamedTuple


class WriterLimits(NamedTuple):
    """How much, and how long.

    Attributes:
        bytes_in_flight: How many bytes may be on their way to brokers at a time, copied.
        transaction_timeout_s: After which time brokers abort a transaction that was begun; at
            most their `transaction.max.timeout.ms` (15 minutes). Readers with
            `read_committed` wait as long for a writer that has gone.
        delivery_timeout_s: A batch that is not stored after this time has failed; less than the
            transaction timeout.
    """

    bytes_in_flight: int = 8 * 2**20
    transaction_timeout_s: float = 120.0
    delivery_timeout_s: float = 90.0
