"""Recent refusals, also those that were only observed: a row for each reason, with its count.

`put` is called for every refusal, so it only finds its row and counts. Input of clients
(names, client ids, messages) is bounded in length, and there are no more rows than
`ROWS_MAX`: a new reason takes the row of the least recently seen reason. Where new reasons
come faster than `NEW_MAX` at a time, as they do where a message has a number in it, the others
are counted together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.gateway.refusal_log import Refused

    Reason = tuple[str, str, int, str | None, str | None, bool, str]
    """Topic, policy, error code, message, client id, whether it is observed, the outcome."""

ROWS_MAX: Final = 300
NEW_MAX: Final = 50
"""As many new reasons get a row between two looks."""
MINUTES_MAX: Final = 6
"""So many minutes are counted separately: five, and the current minute."""
TEXT_MAX: Final = 300
"""Longer texts are cut."""
_KEPT: Final = TEXT_MAX + 1
"""As much of a text shows that it has to be cut."""
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


@dataclass(slots=True)
class RefusalRow:
    """A reason, with texts that can be shown.

    Attributes:
        number: Tells it apart from all others that there were.
        is_observed: Whether it only would have been refused (`penstock.mode`).
        outcome: Of the verdict.
        topic: The topic; for configs, the type and the name of the resource.
        policy: The class that decided.
        code: The error code.
        message: The message of the first record, or of the batch.
        client_id: The client id, or None.
        first_at: When it was first seen, in seconds since the epoch.
        last_at: When it was last seen, as of the last look.
        partition: Where it was seen lately; None for topics and configs.
        principal: Whose it was then, if that is known.
        address: Where it came from then, if that is known.
        dead_letter_topic: Where its records went then, if they are in quarantine.
        detail: Where a policy failed then: files and lines, without contents of records.
        count: How many batches, or requests about topics.
        records: How many records these batches had, as far as that is known.
        is_changed: Whether it was seen since the last look.
        minutes: The part of `count` of each of the last minutes, by the minute since the epoch.
        minutes_count: The part of `count` that has been added to a minute.
    """

    number: int
    is_observed: bool
    outcome: str
    topic: str
    policy: str
    code: int
    message: str
    client_id: str | None
    first_at: float
    last_at: float
    partition: int | None = None
    principal: str | None = None
    address: str | None = None
    dead_letter_topic: str | None = None
    detail: str = ""
    count: int = 0
    records: int = 0
    is_changed: bool = False
    minutes: dict[int, int] = field(default_factory=dict)
    minutes_count: int = 0

    def look(self, now: float) -> None:
        """Take note of what was counted since the last look."""
        self.is_changed = False
        self.last_at = now
        minute = int(now // 60)
        self.minutes[minute] = self.minutes.get(minute, 0) + self.count - self.minutes_count
        self.minutes_count = self.count
        if len(self.minutes) > MINUTES_MAX:
            # The first, not the least: a clock may be set back.
            del self.minutes[next(iter(self.minutes))]

    def as_json(self) -> dict[str, Any]:
        """Return it as the console's pages get it."""
        return {
            "id": self.number,
            "observed": self.is_observed,
            "outcome": self.outcome,
            "topic": self.topic,
            "partition": self.partition,
            "policy": self.policy,
            "code": self.code,
            "message": self.message,
            "client": self.client_id,
            "principal": None if self.principal is None else shown(self.principal),
            "address": None if self.address is None else shown(self.address),
            "dead_letter_topic": (
                None if self.dead_letter_topic is None else shown(self.dead_letter_topic)
            ),
            "detail": shown(self.detail),
            "count": self.count,
            "records": self.records,
            "first": round(self.first_at, 3),
            "last": round(self.last_at, 3),
            "minutes": [[minute, count] for minute, count in self.minutes.items()],
        }


class RecentRefusals:
    """The reasons, with those that were seen last at the end.

    Attributes:
        others: How many refusals have no row, because there were too many new reasons.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        """Make it without rows.

        Args:
            now: Returns the time in seconds since the epoch.
        """
        self._now = now
        self._rows: dict[Reason, RefusalRow] = {}
        self._changed: list[tuple[Reason, RefusalRow]] = []
        self._numbers = 0
        self._new = 0
        self.others = 0

    def put(self, refused: Refused) -> None:
        """Count a refusal. Every refusal takes this time."""
        verdict = refused.verdict
        errors = verdict.record_errors
        client_id = refused.client_id
        reason = (
            refused.topic[:_KEPT],  # it is kept, and may be of 32 KiB
            verdict.policy,
            verdict.code,
            errors[0].message if errors else verdict.message,
            client_id and client_id[:_KEPT],
            refused.is_observed,
            verdict.outcome.value,
        )
        row = self._rows.get(reason) or self._add(reason)
        if row is None:
            return
        row.count += 1
        row.records += refused.records or len(errors)
        if not row.is_changed:
            row.is_changed = True
            row.partition = refused.partition
            row.principal = refused.principal and refused.principal[:_KEPT]
            row.address = refused.address
            row.dead_letter_topic = refused.dead_letter_topic
            row.detail = verdict.detail[:_KEPT]
            self._changed.append((reason, row))

    def _add(self, reason: Reason) -> RefusalRow | None:
        if self._new >= NEW_MAX or not self._has_room():
            self.others += 1
            return None
        self._new += 1
        self._numbers += 1
        now = self._now()
        topic, policy, code, message, client_id, is_observed, outcome = reason
        row = self._rows[reason] = RefusalRow(
            self._numbers,
            is_observed,
            outcome,
            shown(topic),
            shown(policy),
            int(code),
            shown(message or ""),
            None if client_id is None else shown(client_id),
            now,
            now,
        )
        return row

    def _has_room(self) -> bool:
        if len(self._rows) < ROWS_MAX:
            return True
        # `look` moves those that were seen to the end.
        oldest = next((key for key, row in self._rows.items() if not row.is_changed), None)
        if oldest is not None:
            del self._rows[oldest]
        return oldest is not None

    def look(self) -> list[RefusalRow]:
        """Return the rows that were seen since the last look; others may be new from now on."""
        now = self._now()
        self._new = 0
        changed_rows = []
        for reason, row in self._changed:
            row.look(now)
            del self._rows[reason]
            self._rows[reason] = row
            changed_rows.append(row)
        self._changed.clear()
        return changed_rows

    def rows(self) -> list[RefusalRow]:
        """Return all rows, those that were seen last first."""
        return list(reversed(self._rows.values()))


def shown(text: str) -> str:
    """Return a text from a client or a policy in a form that is safe to show, and not too long.

    Control characters, and those that change the direction of writing, are replaced.
    """
    cut = text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() else " " if character in "\n\t" else _REPLACEMENT
        for character in cut
    )
