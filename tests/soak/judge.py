"""What came of one producer's records: what it was told, against what is stored.

What is promised stands in docs/guarantees.md; what is no promise is counted, and never a finding:

- a plain producer may store a record twice, or out of order, when it sends again what was stored;
- an idempotent one may store twice what was in flight when an error was final, since it then
  numbers its records anew, under another epoch: what was sent before an error was told, and
  answered after it;
- of what a producer was told nothing certain, anything may have become, but a bad record is never
  stored.
"""

import itertools
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.soak.producers import PLAIN, TRANSACTIONAL, Producer
from tests.soak.records import CHANGED, CHANGED_NOW, DEAD_PARTITIONS, DROPPED, REFUSED, Stored
from tests.soak.told import ABORTED, ACKNOWLEDGED, COMMITTED, UNKNOWN, Told
from tests.soak.told import REFUSED as TOLD_REFUSED
from tests.soak.topic_names import FORGIVING, QUARANTINED

SLACK_S: Final = 2.0
"""How long after an error was told a client may still send under its old numbers."""
STANDSTILL_S: Final = 360.0
"""For how long a producer may be acknowledged nothing: six of the clients' time limits, as a
producer that was made anew may meet the next fault. 270 s were seen where all was overloaded."""
_SHOWN: Final = 20
_CERTAIN: Final = frozenset({ACKNOWLEDGED, COMMITTED})


@dataclass
class Account:
    """Counts that are no findings, and findings: what should never be, with examples."""

    producer: Producer
    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def find(self, what: str, example: object) -> None:
        """Take in a finding."""
        self.findings[what] += 1
        shown = self.examples.setdefault(what, [])
        if len(shown) < _SHOWN:
            shown.append(str(example))


def expected(producer: Producer, number: int) -> str | None:
    """Return the letter under which a record is stored, or None where it is not to be."""
    letter = producer.letter(number)
    if producer.topic in FORGIVING:
        return letter
    if letter in REFUSED or letter == DROPPED:
        return None
    return CHANGED_NOW if letter == CHANGED else letter


def judge(producer: Producer, told: Told, stored: Sequence[Stored]) -> Account:
    """Compare what a producer was told with its records in the order of their partitions.

    Args:
        producer: Who.
        told: What it was told.
        stored: Its records; of transactions, those that a reader of committed records sees.
    """
    account = Account(producer)
    times = Counter(one.number for one in stored)
    last = {one.number: one for one in stored}
    epochs: dict[int, list[tuple[int, int] | None]] = defaultdict(list)
    for one in stored:
        epochs[one.number].append(one.epoch)
    for number, outcome in told.outcomes.items():
        account.counts[outcome.event] += 1
        _judge_told(account, number, outcome.event, is_stored=number in times)
    account.counts["not told"] = sum(number not in told.outcomes for number in times)
    account.counts["stored"] = len(stored)
    for one in stored:
        _judge_letter(account, one)
        if one.number in told.outcomes and told.outcomes[one.number].run != one.run:
            account.find("stored under another run than was told", one)
    for number, count in times.items():
        if count > 1:
            _judge_double(account, told, last[number], epochs[number])
        _judge_refused(account, told, last[number])
    if producer.kind != PLAIN:
        for one in _disordered(stored):
            account.find("out of order", one)
    if producer.kind == TRANSACTIONAL:
        _judge_transactions(account, told, times)
    return account


def _judge_told(account: Account, number: int, event: str, *, is_stored: bool) -> None:
    producer = account.producer
    if event == TOLD_REFUSED and not _may_be_refused(producer):
        account.find("refused though nothing is bad", number)
    if event not in _CERTAIN:
        return
    if producer.letter(number) in REFUSED and producer.topic not in FORGIVING:
        account.find("acknowledged though it is bad", number)
    elif expected(producer, number) is None:
        account.counts["dropped"] += 1
    elif not is_stored:
        account.find("acknowledged and lost", number)


def _may_be_refused(producer: Producer) -> bool:
    """Whether any of its batches is refused; a good record is, with a bad one of its batch."""
    return producer.topic not in FORGIVING and not REFUSED.isdisjoint(producer.mix)


def _judge_letter(account: Account, one: Stored) -> None:
    wanted = expected(account.producer, one.number)
    is_dead = one.letter in REFUSED and account.producer.topic == QUARANTINED
    if is_dead != (one.partition >= DEAD_PARTITIONS):
        account.find("in the wrong topic", one)
    if one.letter == wanted:
        return
    sent = account.producer.letter(one.number)
    if one.letter in REFUSED and one.letter == sent:
        account.find("stored though it is bad", one)
    elif one.letter == DROPPED and one.letter == sent:
        account.find("stored though it was to be dropped", one)
    elif one.letter == CHANGED and one.letter == sent:
        account.find("stored as it was, though it was to be changed", one)
    else:
        account.find("stored with another content than was sent", one)


def _judge_double(
    account: Account, told: Told, one: Stored, epochs: Sequence[tuple[int, int] | None]
) -> None:
    known = [epoch for epoch in epochs if epoch is not None]
    if account.producer.kind == PLAIN:
        account.counts["doubled"] += 1
    elif len(set(known)) < len(known):
        account.find("stored twice under one epoch", f"{one.number} {known}")
    elif account.producer.kind != TRANSACTIONAL and _is_in_trouble(told, one):
        account.counts["doubled after an error"] += 1
    else:
        account.find("stored twice", f"{one.number}, sent at {one.sent_at:.3f}, {known}")


def _judge_refused(account: Account, told: Told, one: Stored) -> None:
    """Judge a record that is stored, and of which its producer was told that it is not."""
    outcome = told.outcomes.get(one.number)
    if outcome is None or expected(account.producer, one.number) is None:
        return
    if outcome.event == ABORTED:
        account.find("aborted, and seen by a reader of committed records", one.number)
    elif outcome.event == TOLD_REFUSED:
        # Sent before in another batch, which was stored, and not answered.
        if account.producer.kind == PLAIN or _is_in_trouble(told, one, but_its_own=True):
            account.counts["stored by an earlier attempt"] += 1
        else:
            account.find("refused and stored", one.number)


def _is_in_trouble(told: Told, one: Stored, *, but_its_own: bool = False) -> bool:
    """Whether an error was told in the time in which a record was on its way."""
    troubles = told.troubles.get(one.run, [])
    outcome = told.outcomes.get(one.number)
    if outcome is None:
        latest = float("inf")
    else:
        latest = outcome.at - 0.5 if but_its_own else outcome.at + 0.5
    place = bisect_left(troubles, one.sent_at - SLACK_S)
    return place < len(troubles) and troubles[place] <= latest


def standstill(told: Told, begun: float, ended: float) -> float:
    """Return for how long, at the longest, a producer was acknowledged nothing.

    Args:
        told: What it was told.
        begun: When it began to send, in seconds since 1970.
        ended: When it sent no more.
    """
    answered = (outcome.at for outcome in told.outcomes.values() if outcome.event in _CERTAIN)
    times = [begun, *sorted(at for at in answered if begun < at < ended), ended]
    return max(after - before for before, after in itertools.pairwise(times))


def _disordered(stored: Iterable[Stored]) -> Iterable[Stored]:
    """Return what is stored behind a later record of the same run; the first time counts."""
    last: dict[tuple[int, int], int] = {}
    seen: set[tuple[int, int]] = set()
    for one in stored:
        if (one.partition, one.number) in seen or one.partition >= DEAD_PARTITIONS:
            continue  # dead letters have no order
        seen.add((one.partition, one.number))
        place = (one.run, one.partition)
        if one.number < last.get(place, -1):
            yield one
        last[place] = max(last.get(place, -1), one.number)


def _judge_transactions(account: Account, told: Told, times: Counter[int]) -> None:
    """A transaction of which nobody knows is committed as a whole, or not at all."""
    wholes: dict[bool, int] = defaultdict(int)
    for numbers in told.transactions:
        if told.outcomes[numbers[0]].event != UNKNOWN:
            continue
        kept = [number for number in numbers if expected(account.producer, number) is not None]
        there = sum(number in times for number in kept)
        wholes[bool(there)] += 1
        if there not in {0, len(kept)}:
            account.find("a transaction stored in part", f"{numbers[0]}-{numbers[-1]}")
    account.counts["transactions unknown and stored"] = wholes[True]
    account.counts["transactions unknown and not stored"] = wholes[False]
