"""The name of a commit to a table: who wrote it, and which micro-batch it is."""

from __future__ import annotations

from typing import NamedTuple


class TableCommit(NamedTuple):
    """A commit.

    Attributes:
        writer: The stream and the sink, or the run of a command that is no stream.
        number: The number of the micro-batch; None if it is no stream.
        attempt: The id of the attempt: with the same id, the records are the same. None if it is no
            stream.
    """

    writer: str
    number: int | None = None
    attempt: str | None = None
