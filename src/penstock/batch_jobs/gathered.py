"""Dead letters of several source batches in one batch.

Where few records of each batch are refused, a batch of dead letters for each would cost more than
all else: a request takes the CPU of some hundred records.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.batch_jobs.targets import fitting
from penstock.engine.dead_letters import PREFIXES, own_headers
from penstock.records.builder import build
from penstock.records.encoder import NewHeader, encode
from penstock.records.header import CODEC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.batch_jobs.kept import SourcePartition
    from penstock.batch_jobs.targets import OutgoingBatch, Target
    from penstock.client.produced_batches import Source
    from penstock.records.stored_batch import StoredBatch

GATHERED_RECORDS: Final = 500
"""As many of one batch are cut out of it at once, in native code."""
_GATHERED_BYTES: Final = 256 * 1024
_REPLACED: Final = "\ufffd"
"""What readers have in place of bytes that are not UTF-8; only `StoredBatch.cut` keeps those."""


class _Letter(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    source: Source


class GatheredLetters:
    """Dead letters on their way to one partition, in their order."""

    def __init__(
        self, source: SourcePartition, target: Target, clock: Callable[[], float] = time.time
    ) -> None:
        """Prepare.

        Args:
            source: Where the records are read.
            target: Where dead letters are written, with the time of now.
            clock: Returns seconds since the epoch.
        """
        self._source = source
        self._target = target
        self._clock = clock
        self._codec = 0
        self._waiting: list[_Letter] = []
        self._bytes = 0

    def add(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        appended: Sequence[list[tuple[str, bytes | None]]],
    ) -> Iterator[OutgoingBatch]:
        """Take records of a batch; return what is to be written by now.

        Args:
            batch: The batch.
            positions: The positions of the records, ascending.
            appended: For each of them, the headers of a dead letter.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        all_headers = batch.records.headers
        is_odd = any(_REPLACED in key for at in positions for key, _ in all_headers[at])
        if is_odd or len(positions) >= GATHERED_RECORDS:
            yield from self.rest()
            yield from self._cut(batch, positions, appended)
            return
        keys, values = batch.records.keys, batch.records.values
        source = self._source.of(batch, positions)
        for index, (at, more) in enumerate(zip(positions, appended, strict=True)):
            headers = [*(one[:] for one in own_headers(all_headers[at])), *more]
            self._waiting.append(_Letter(keys[at], values[at], headers, source(index)))
            self._bytes += len(keys[at] or b"") + len(values[at] or b"")
            self._bytes += sum(len(key) + len(value or b"") for key, value in headers)
        self._codec = batch.attributes & CODEC
        if len(self._waiting) >= GATHERED_RECORDS or self._bytes >= _GATHERED_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return what was taken and not yet returned.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        letters, self._waiting, self._bytes = self._waiting, [], 0
        now, codec = int(self._clock() * 1000), self._codec

        def written(start: int, end: int) -> bytes:
            keys, values, headers, _ = zip(*letters[start:end], strict=True)
            section = build(now, [now] * (end - start), keys, values, headers)
            return encode(NewHeader(codec, now, now), section, end - start, fast=True)

        yield from fitting(
            self._target,
            self._source.partition,
            len(letters),
            written,
            lambda index: letters[index].source,
        )

    def forget(self) -> None:
        """Drop what was taken and not yet returned: its transaction is lost."""
        self._waiting, self._bytes = [], 0

    def _cut(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        appended: Sequence[list[tuple[str, bytes | None]]],
    ) -> Iterator[OutgoingBatch]:
        now = int(self._clock() * 1000)
        return fitting(
            self._target,
            self._source.partition,
            len(positions),
            lambda start, end: batch.cut(
                positions[start:end],
                appended=appended[start:end],
                without=PREFIXES,
                timestamp=now,
            ),
            self._source.of(batch, positions),
        )
