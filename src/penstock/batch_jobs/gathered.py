"""Records of several source batches in one batch.

Where batches are small, or few records of each are refused, a batch of the target for each would
cost more than all else: a request takes the CPU of some hundred records, and the target would keep
the crumbs.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Final

from penstock.batch_jobs.targets import fitting
from penstock.engine.dead_letters import PREFIXES, own_headers
from penstock.records.builder import build
from penstock.records.encoder import NewHeader, encode
from penstock.records.header import CODEC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.batch_jobs.targets import OutgoingBatch, SourcePartition, Target
    from penstock.client.produced_batches import Source
    from penstock.policy import Header
    from penstock.records.stored_batch import StoredBatch

GATHERED_RECORDS: Final = 500
"""As many dead letters of one batch are cut out of it at once, in native code."""
_BYTES: Final = 256 * 1024
_RECORDS: Final = 10_000
_REPLACED: Final = "\ufffd"
"""What readers have in place of bytes that are not UTF-8; only `StoredBatch.cut` keeps those."""


def is_odd(headers: Iterable[Sequence[Header]]) -> bool:
    """Return whether a header of some records has a key that may not be UTF-8."""
    return any(_REPLACED in key for some in headers for key, _ in some)


class Gathered:
    """Records on their way to one partition, in their order."""

    def __init__(self, source: SourcePartition, target: Target) -> None:
        """Prepare.

        Args:
            source: Where the records are read.
            target: Where they are written.
        """
        self._source = source
        self._target = target
        self._codec = 0
        self.forget()

    def __len__(self) -> int:
        return len(self._keys)

    def add(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        timestamps: Sequence[int],
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[list[tuple[str, bytes | None]]],
    ) -> None:
        """Take records of a batch.

        Args:
            batch: Where they are from.
            positions: Their positions in it.
            timestamps: In ms, of each of them.
            keys: Of each of them.
            values: Of each of them.
            headers: Of each of them.
        """
        self._sources.append((len(self._keys), self._source.of(batch, positions)))
        self._timestamps += timestamps
        self._keys += keys
        self._values += values
        self._headers += headers
        self._bytes += sum(map(len, filter(None, chain(keys, values))))
        self._bytes += sum(len(key) + len(value or b"") for some in headers for key, value in some)
        self._codec = batch.attributes & CODEC

    def is_full(self, records: int = _RECORDS) -> bool:
        """Return whether what waits is to be written."""
        return len(self._keys) >= records or self._bytes >= _BYTES

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return what was taken and not yet returned.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        timestamps, keys, values, headers = (
            self._timestamps,
            self._keys,
            self._values,
            self._headers,
        )
        sources, codec = self._sources, self._codec
        self.forget()

        def written(start: int, end: int) -> bytes:
            some = timestamps[start:end]
            section = build(some[0], some, keys[start:end], values[start:end], headers[start:end])
            return encode(NewHeader(codec, some[0], max(some)), section, end - start, fast=True)

        def source(position: int) -> Source:
            index = bisect_right(sources, position, key=lambda one: one[0]) - 1
            first, of = sources[index]
            return of(position - first)

        return fitting(self._target, self._source.partition, len(keys), written, source)

    def forget(self) -> None:
        """Drop what was taken and not yet returned: its transaction is lost."""
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[list[tuple[str, bytes | None]]] = []
        self._sources: list[tuple[int, Callable[[int], Source]]] = []
        self._bytes = 0


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
        self._waiting = Gathered(source, target)

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
        if not positions:
            return
        now = int(self._clock() * 1000)
        all_headers = [batch.records.headers[at] for at in positions]
        if is_odd(all_headers) or len(positions) >= GATHERED_RECORDS:
            yield from self.rest()
            yield from self._cut(batch, positions, appended, now)
            return
        keys, values = batch.records.keys, batch.records.values
        self._waiting.add(
            batch,
            positions,
            [now] * len(positions),
            [keys[at] for at in positions],
            [values[at] for at in positions],
            [
                [*(one[:] for one in own_headers(own)), *more]
                for own, more in zip(all_headers, appended, strict=True)
            ],
        )
        if self._waiting.is_full(GATHERED_RECORDS):
            yield from self.rest()

    def rest(self) -> Iterator[OutgoingBatch]:
        """Return what was taken and not yet returned.

        Raises:
            RefusedBatchError: A record is too large for the target.
        """
        return self._waiting.rest()

    def forget(self) -> None:
        """Drop what was taken and not yet returned: its transaction is lost."""
        self._waiting.forget()

    def _cut(
        self,
        batch: StoredBatch,
        positions: Sequence[int],
        appended: Sequence[list[tuple[str, bytes | None]]],
        now: int,
    ) -> Iterator[OutgoingBatch]:
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
