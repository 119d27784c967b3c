"""Writes dead letters with the timestamps that their records had.

`StoredBatch.cut` keeps all timestamps, or sets the same for all. If records get different
timestamps, the batch is written in Python. Header keys that are not UTF-8 cannot be written so:
records with such a key are cut, with others of the same timestamp.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from penstock.kafka.records.builder import build
from penstock.kafka.records.encoder import NewHeader, encode
from penstock.kafka.records.header import CODEC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.kafka.records.stored import KeysAndValues
    from penstock.kafka.records.stored_batch import StoredBatch
    from penstock.policy import Header

_REPLACED: Final = "\ufffd"
"""The replacement that readers use for bytes that are not UTF-8."""


def runs(
    positions: Sequence[int],
    timestamps: Sequence[int],
    own: Sequence[Sequence[Header]],
    without: Sequence[tuple[str, ...]],
) -> Iterator[list[int]]:
    """Return the records that `retimed` can write as one batch, in order.

    Args:
        positions: The positions of the records in their batch, ascending.
        timestamps: The new timestamps of all records of the batch.
        own: The headers of all records of the batch, without those of dead letters.
        without: How the names of those begin that are left out, of all records of the batch.
    """

    def kind(position: int) -> tuple[tuple[str, ...], int | None]:
        is_odd = any(_REPLACED in key for key, _ in own[position])
        return without[position], timestamps[position] if is_odd else None

    for _, run in groupby(positions, key=kind):
        yield list(run)


def retimed(
    batch: StoredBatch,
    positions: Sequence[int],
    timestamps: Sequence[int],
    own: Sequence[Sequence[Header]],
    replaced: KeysAndValues,
    appended: Sequence[Sequence[tuple[str, bytes | None]]],
    without: tuple[str, ...],
) -> bytes:
    """Write records of a batch with other timestamps, and without the headers of dead letters.

    Args:
        batch: The batch that they were in.
        positions: Their positions, of one of `runs`; at least one.
        timestamps: The new timestamps of all records of the batch.
        own: The headers of all records of the batch, without those of dead letters.
        replaced: The new keys and values of all records of the batch.
        appended: For each record that is written, headers that follow its own.
        without: How the names of the headers of dead letters begin.

    Returns:
        A batch of magic 2 with the same codec.

    Raises:
        ValueError: A record does not fit a batch.
    """
    record_timestamps = [timestamps[position] for position in positions]
    base = record_timestamps[0]
    if all(timestamp == base for timestamp in record_timestamps):
        return batch.cut(
            positions, replaced=replaced, appended=appended, without=without, timestamp=base
        )
    keys, values = ([column[position] for position in positions] for column in replaced)
    # aiokafka's builder takes tuples, and no subclass of tuple.
    headers = [
        [*(header[:] for header in own[position]), *more]
        for position, more in zip(positions, appended, strict=True)
    ]
    section = build(base, record_timestamps, keys, values, headers)
    header = NewHeader(batch.attributes & CODEC, base, max(record_timestamps))
    return encode(header, section, len(positions), fast=True)
