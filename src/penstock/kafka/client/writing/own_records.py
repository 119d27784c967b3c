"""Batches of records of Penstock's own."""

from __future__ import annotations

import time
from itertools import repeat
from typing import TYPE_CHECKING, Final

from penstock.kafka.client.protocol.produced_batches import BatchSource
from penstock.kafka.records.builder import build
from penstock.kafka.records.encoder import NewHeader, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

LZ4: Final = 3
"""A codec."""
_OWN: Final = -1


def own_batch(records: Sequence[tuple[bytes | None, bytes | None]], codec: int = 0) -> bytes:
    """Return a batch of records with the present time.

    Args:
        records: Keys and values; at least one.
        codec: To compress with; none by default.
    """
    now_ms = int(time.time() * 1000)
    count = len(records)
    keys, values = zip(*records, strict=True)
    section = build(now_ms, [now_ms] * count, keys, values, repeat([], count))
    return encode(NewHeader(codec, now_ms, now_ms), section, count, fast=True)


def own_source(topic: str, partition: int) -> BatchSource:
    """Return the source of such a batch, for errors.

    Args:
        topic: Where it is written.
        partition: Where it is written.
    """
    return BatchSource(topic, partition, _OWN)
