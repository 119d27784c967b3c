"""The delivery reports of a producer, read from the lines that its program prints.

A line has a producer's name, its run, an event, a number or a range of numbers, the time, and the
reason, separated by tabs. Events: `acknowledged`, `refused` (87 or 44), `unknown` (any other error, and transactions that may be committed or not), `committed`, `aborted`, `dead` (the producer
cannot continue, and is created again), `ended`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ACKNOWLEDGED: Final = "acknowledged"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
DEAD: Final = "dead"
ENDED: Final = "ended"
_OF_RECORDS: Final = frozenset({ACKNOWLEDGED, REFUSED, UNKNOWN, COMMITTED, ABORTED})


class Outcome(NamedTuple):
    """The last report about a record."""

    event: str
    run: int
    at: float


@dataclass
class ProducerReport:
    """The delivery reports of a producer.

    Attributes:
        outcomes: By number.
        transactions: The ranges of numbers with a common report.
        troubles: The times of reported errors by run, in order.
        why: Texts of errors, and how often each was reported.
        deaths: The number of times that it could not continue.
        ended: Whether it ended by itself.
    """

    outcomes: dict[int, Outcome] = field(default_factory=dict)
    transactions: list[range] = field(default_factory=list)
    troubles: dict[int, list[float]] = field(default_factory=dict)
    why: dict[str, int] = field(default_factory=dict)
    deaths: int = 0
    ended: bool = False

    def note(self, run: str, event: str, numbers: str, at: str, text: str) -> None:
        """Add a line.

        Raises:
            ValueError: The event is unknown.
        """
        if event == ENDED:
            self.ended = True
        elif event == DEAD:
            self.deaths += 1
            self._note_trouble(int(run), float(at), f"dead: {text}")
        elif event in _OF_RECORDS:
            self._note_records(int(run), event, numbers, float(at))
            if event not in {ACKNOWLEDGED, COMMITTED}:
                self._note_trouble(int(run), float(at), text)
        else:
            raise ValueError(f"unknown event {event!r}")

    def _note_records(self, run: int, event: str, numbers: str, at: float) -> None:
        first, _, last = numbers.partition("-")
        numbered = range(int(first), int(last or first) + 1)
        if last:
            self.transactions.append(numbered)
        for number in numbered:
            self.outcomes[number] = Outcome(event, run, at)

    def _note_trouble(self, run: int, at: float, text: str) -> None:
        self.troubles.setdefault(run, []).append(at)
        if text:
            self.why[text] = self.why.get(text, 0) + 1


def read_reports(lines: Iterable[str], names: Iterable[str]) -> dict[str, ProducerReport]:
    """Return the reports of producers; the last line may be cut off if a program was killed.

    Raises:
        ValueError: Another line is not of a program.
    """
    found = {name: ProducerReport() for name in names}
    is_cut_off = False
    for line in lines:
        if is_cut_off:
            raise ValueError("a line of a program is mixed with others")
        fields = line.rstrip("\n").split("\t", 5)
        is_cut_off = len(fields) != 6 or not line.endswith("\n")
        if not is_cut_off:
            found[fields[0]].note(*fields[1:])
    return found
