"""Joins batches of dead letters for a request, and halves a batch that is too large for a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.header import CODEC
from penstock.kafka.records.stored_batch import read_stored_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | memoryview

_NO_LIMIT: Final = 2**31 - 1
"""The gateway has written the letters itself."""


def join_letters(batches: Sequence[Buffer]) -> Buffer:
    """Return one batch with the letters of some batches, in their order.

    Args:
        batches: Batches as `write_letters` returns them; at least one.

    Returns:
        A batch with the codec of the first, or the first itself if it is the only batch.
    """
    if len(batches) == 1:
        return batches[0]
    sources = [read_stored_batch(batch, max_decompressed_bytes=_NO_LIMIT) for batch in batches]
    base, count, sections, latest = sources[0].base_timestamp, 0, [], sources[0].max_timestamp
    for batch in sources:
        section, timestamp = batch.section(range(len(batch.records)), base, first=count)
        sections.append(section)
        count += len(batch.records)
        latest = max(latest, timestamp)
    header = NewHeader(sources[0].attributes & CODEC, base, latest)
    return encode(header, b"".join(sections), count, fast=True)


def halve_letters(batch: Buffer) -> tuple[bytes, bytes]:
    """Return the first half of the letters of a batch, and the others, as two batches.

    Args:
        batch: A batch with at least two letters.
    """
    stored_batch = read_stored_batch(batch, max_decompressed_bytes=_NO_LIMIT)
    count = len(stored_batch.records)
    return stored_batch.cut(range(count // 2)), stored_batch.cut(range(count // 2, count))
