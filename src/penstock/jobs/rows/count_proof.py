"""Proves that a job has written what it has read, before a file is removed or a folder appears."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable


def _none() -> int:
    return 0


class CountProof(NamedTuple):
    """The number of records in files, and what became of them.

    Attributes:
        source: The files, as errors name them.
        records: How many records they have, by their footers or lines.
        left_out: Returns how many records the job does not write, such as those that were dropped.
    """

    source: str
    records: int
    left_out: Callable[[], int] = _none

    def check(self, written_count: int) -> None:
        """Compare.

        Args:
            written_count: How many records were written, to all targets.

        Raises:
            UnavailableError: Some are missing, or there are more.
        """
        total = written_count + self.left_out()
        if total != self.records:
            raise UnavailableError(
                f"{self.source}: the files have {self.records:,} records, and {total:,} were read: "
                "no file is removed, and no folder is changed; run the command again"
            )
