"""A record as it stands in a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class StoredRecord(Protocol):
    """A decoded record."""

    @property
    def offset(self) -> int:
        """Its position in the batch."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since the epoch; -1 for none."""

    @property
    def key(self) -> bytes | None:
        """The key."""

    @property
    def value(self) -> bytes | None:
        """The value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """The headers, in order."""
