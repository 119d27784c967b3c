"""Makes dead letters of rows that policies refuse."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING

from penstock.engine.modes.dead_letters import LetterHeaders, PartialOrigin, of_plan
from penstock.policy import Header

if TYPE_CHECKING:
    from penstock.engine.verdict import PolicyVerdict
    from penstock.jobs.rows.judged_rows import JudgedRow
    from penstock.jobs.rows.records import RecordRow


class DeadLetters:
    """Makes dead letters; the texts of a verdict are encoded once."""

    def __init__(self) -> None:
        self._reasons = LetterHeaders()

    def first(self, row: RecordRow, verdict: PolicyVerdict, digest: str = "") -> RecordRow:
        """Return a refused record as a dead letter; one that is a letter keeps its first place.

        Args:
            digest: That of the topic's plan, if it is known.
        """
        headers = self._reasons.with_own(verdict, row.headers, place_of(row))
        return row._replace(headers=(*headers, *starmap(Header, of_plan(digest))))

    def again(
        self, result: JudgedRow, letter: RecordRow, origin: PartialOrigin, digest: str = ""
    ) -> RecordRow:
        """Return a letter with the new reason, as its record was before interceptors.

        Args:
            result: The record, as it was judged again.
            letter: The letter as it was.
            origin: Where the record first was.
            digest: That of the topic's plan, if it is known.
        """
        more = self._reasons.headers(result.verdict, origin, replays=origin.replays + 1)
        headers = (*result.row.headers, *starmap(Header, (*more, *of_plan(digest))))
        return result.row._replace(topic=letter.topic, partition=letter.partition, headers=headers)


def place_of(row: RecordRow) -> PartialOrigin:
    """Return where a record is."""
    return PartialOrigin(row.topic, row.partition, row.offset, row.timestamp)
