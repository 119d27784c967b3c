"""The built-in policies over records (KIP-940): each judges columns, or one record as columns.

A policy that takes no more than a few milliseconds for a small batch may be judged where batches
are received (`penstock.engine.inline`): `is_bounded` announces it, and `all_fit` decides.

A simple policy may be judged in native threads, too: `judge_natively` configures them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.policy import InvalidRecordException
from penstock.policy import RecordValidationPolicy as Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.policy import BatchProxy, Header, RecordProxy, TopicMetadata


class RecordColumns(Protocol):
    """The part of a batch that is judged: an entry for each record, which may be read again."""

    @property
    def keys(self) -> Iterable[bytes | None]: ...
    @property
    def values(self) -> Iterable[bytes | None]: ...
    @property
    def headers(self) -> Iterable[Iterable[Header]]: ...


class NativeJudge(Protocol):
    """The judge of native threads: `Judge` of `penstock._native`.

    Each method adds something that is looked for. It returns False, and adds nothing, where that
    would not be bounded.
    """

    def fits(self, schema: Any, keys: bool, accepts_null: bool, longest: int | None) -> bool:
        """Have keys, or values, fit a native schema; and have no more bytes than `longest`."""

    def has_key(self, accepts_empty: bool) -> bool:
        """Require that records have a key."""

    def sizes(
        self, key: int | None, value: int | None, headers: int | None, record: int | None
    ) -> bool:
        """Limit the bytes of keys, values, all headers of a record, and all three together."""

    def has_headers(self, names: list[str]) -> bool:
        """Require that records have headers with these names."""

    def has_no_headers(self, names: list[str]) -> bool:
        """Require that no record has a header with one of these names."""

    def accepts_in_time(self, data: bytes) -> bool:
        """Return whether all records of a batch are accepted; False if that takes too long."""


class ByColumns(Policy):
    """Judges columns: a policy derives from it and returns the records that it refuses."""

    reads_timestamps = False

    def refused(self, batch: RecordColumns) -> Iterable[tuple[int, str]]:
        """Return the positions of refused records, ascending, each with its message."""
        raise NotImplementedError

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return to let the record pass.

        Raises:
            InvalidRecordException: It is refused; the text holds nothing of the record.
        """
        del topic
        for _, text in self.refused(_SingleRecord(record)):
            raise InvalidRecordException(text)

    def validate_batch(self, topic: TopicMetadata, batch: BatchProxy) -> Iterable[tuple[int, str]]:
        """Return the position and the text of each record that `validate` would refuse."""
        del topic
        return self.refused(batch)

    def is_bounded(self, text: str) -> bool:
        """Return whether `all_fit` takes no longer than to read each byte."""
        del text
        return True

    def all_fit(self, text: str, batch: RecordColumns) -> bool:
        """Return whether every record is accepted."""
        del text
        return next(iter(self.refused(batch)), None) is None


class _SingleRecord:
    """A record as columns."""

    __slots__ = ("headers", "keys", "values")

    def __init__(self, record: RecordProxy) -> None:
        self.keys = (record.key,)
        self.values = (record.value,)
        self.headers = (record.headers,)
