"""The verdict on a producer: its delivery reports against its stored records.

The guarantees are in docs/guarantees.md; events beyond them are counted, and never a finding:

- a plain producer may store a record twice, or out of order, when it retries a stored record;
- an idempotent producer may store a record twice that was in flight when an error was final, since
  it then starts new sequence numbers, under another epoch: records sent before an error was
  reported, and acknowledged after it;
- records without a certain report may be stored or not, but a bad record is never stored.
"""

import itertools
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.soak.producer_reports import ABORTED, ACKNOWLEDGED, COMMITTED, UNKNOWN, ProducerReport
from tests.soak.producer_reports import REFUSED as REPORTED_REFUSED
from tests.soak.producers import PLAIN, TRANSACTIONAL, Producer
from tests.soak.records import CHANGED, CHANGED_NOW, DEAD_PARTITIONS, DROPPED, REFUSED, Stored
from tests.soak.topic_names import FORGIVING, QUARANTINED

SLACK_S: Final = 2.0
"""The time after an error was reported in which a client may still use its old numbers."""
STANDSTILL_S: Final = 360.0
"""The maximum time without an acknowledgement: six of the clients' time limits, as a producer that
is created again may have the next fault. 270 s were measured under overload."""
_SHOWN: Final = 20
_CERTAIN: Final = frozenset({ACKNOWLEDGED, COMMITTED})


@dataclass
class Account:
    """Counts of permitted events, and findings with examples."""

    producer: Producer
    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def find(self, what: str, example: object) -> None:
        """Add a finding."""
        self.findings[what] += 1
        shown = self.examples.setdefault(what, [])
        if len(shown) < _SHOWN:
            shown.append(str(example))


def expected(producer: Producer, number: int) -> str | None:
    """Return the letter under which a record is stored, or None if it must not be stored."""
    letter = producer.letter(number)
    if producer.topic in FORGIVING:
        return letter
    if letter in REFUSED or letter == DROPPED:
        return None
    return CHANGED_NOW if letter == CHANGED else letter


def judge(producer: Producer, reported: ProducerReport, stored: Sequence[Stored]) -> Account:
    """Compare the delivery reports of a producer with its records in the order of their partitions.

    Args:
        producer: The producer.
        reported: Its delivery reports.
        stored: Its records, of transactions only if committed.
    """
    account = Account(producer)
    times = Counter(record.number for record in stored)
    last = {record.number: record for record in stored}
    epochs: dict[int, list[tuple[int, int] | None]] = defaultdict(list)
    for record in stored:
        epochs[record.number].append(record.epoch)
    for number, outcome in reported.outcomes.items():
        account.counts[outcome.event] += 1
        _judge_outcome(account, number, outcome.event, is_stored=number in times)
    account.counts["not reported"] = sum(number not in reported.outcomes for number in times)
    account.counts["stored"] = len(stored)
    for record in stored:
        _judge_letter(account, record)
        if (
            record.number in reported.outcomes
            and reported.outcomes[record.number].run != record.run
        ):
            account.find("stored under another run than was reported", record)
    for number, count in times.items():
        if count > 1:
            _judge_double(account, reported, last[number], epochs[number])
        _judge_refused(account, reported, last[number])
    if producer.kind != PLAIN:
        for record in _disordered(stored):
            account.find("out of order", record)
    if producer.kind == TRANSACTIONAL:
        _judge_transactions(account, reported, times)
    return account


def _judge_outcome(account: Account, number: int, event: str, *, is_stored: bool) -> None:
    producer = account.producer
    if event == REPORTED_REFUSED and not _may_be_refused(producer):
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
    """Return whether its batches may be refused, also good records in a batch with bad records."""
    return producer.topic not in FORGIVING and not REFUSED.isdisjoint(producer.mix)


def _judge_letter(account: Account, record: Stored) -> None:
    expected_letter = expected(account.producer, record.number)
    is_dead = record.letter in REFUSED and account.producer.topic == QUARANTINED
    if is_dead != (record.partition >= DEAD_PARTITIONS):
        account.find("in the wrong topic", record)
    if record.letter == expected_letter:
        return
    sent = account.producer.letter(record.number)
    if record.letter in REFUSED and record.letter == sent:
        account.find("stored though it is bad", record)
    elif record.letter == DROPPED and record.letter == sent:
        account.find("stored though it was to be dropped", record)
    elif record.letter == CHANGED and record.letter == sent:
        account.find("stored as it was, though it was to be changed", record)
    else:
        account.find("stored with another content than was sent", record)


def _judge_double(
    account: Account,
    reported: ProducerReport,
    record: Stored,
    epochs: Sequence[tuple[int, int] | None],
) -> None:
    known = [epoch for epoch in epochs if epoch is not None]
    if account.producer.kind == PLAIN:
        account.counts["doubled"] += 1
    elif len(set(known)) < len(known):
        account.find("stored twice under one epoch", f"{record.number} {known}")
    elif account.producer.kind != TRANSACTIONAL and _is_in_trouble(reported, record):
        account.counts["doubled after an error"] += 1
    else:
        account.find("stored twice", f"{record.number}, sent at {record.sent_at:.3f}, {known}")


def _judge_refused(account: Account, reported: ProducerReport, record: Stored) -> None:
    """Judge a stored record whose producer got the report that it is not stored."""
    outcome = reported.outcomes.get(record.number)
    if outcome is None or expected(account.producer, record.number) is None:
        return
    if outcome.event == ABORTED:
        account.find("aborted, and seen by a reader of committed records", record.number)
    elif outcome.event == REPORTED_REFUSED:
        # Sent before in another batch, which was stored, and not answered.
        if account.producer.kind == PLAIN or _is_in_trouble(reported, record, but_its_own=True):
            account.counts["stored by an earlier attempt"] += 1
        else:
            account.find("refused and stored", record.number)


def _is_in_trouble(reported: ProducerReport, record: Stored, *, but_its_own: bool = False) -> bool:
    """Return whether an error was reported while a record was in flight."""
    troubles = reported.troubles.get(record.run, [])
    outcome = reported.outcomes.get(record.number)
    if outcome is None:
        latest = float("inf")
    else:
        latest = outcome.at - 0.5 if but_its_own else outcome.at + 0.5
    position = bisect_left(troubles, record.sent_at - SLACK_S)
    return position < len(troubles) and troubles[position] <= latest


def standstill(reported: ProducerReport, began: float, ended: float) -> float:
    """Return the longest time without an acknowledgement.

    Args:
        reported: Its delivery reports.
        began: The time of its start, in seconds since 1970.
        ended: The time of its last record.
    """
    answered = (outcome.at for outcome in reported.outcomes.values() if outcome.event in _CERTAIN)
    times = [began, *sorted(at for at in answered if began < at < ended), ended]
    return max(after - before for before, after in itertools.pairwise(times))


def _disordered(stored: Iterable[Stored]) -> Iterable[Stored]:
    """Return records after a later record of the same run; the first time counts."""
    last: dict[tuple[int, int], int] = {}
    seen: set[tuple[int, int]] = set()
    for record in stored:
        if (record.partition, record.number) in seen or record.partition >= DEAD_PARTITIONS:
            continue  # dead letters have no order
        seen.add((record.partition, record.number))
        run_and_partition = (record.run, record.partition)
        if record.number < last.get(run_and_partition, -1):
            yield record
        last[run_and_partition] = max(last.get(run_and_partition, -1), record.number)


def _judge_transactions(account: Account, reported: ProducerReport, times: Counter[int]) -> None:
    """A transaction with an unknown outcome is committed as a whole, or not at all."""
    wholes: dict[bool, int] = defaultdict(int)
    for numbers in reported.transactions:
        if reported.outcomes[numbers[0]].event != UNKNOWN:
            continue
        kept = [number for number in numbers if expected(account.producer, number) is not None]
        stored_count = sum(number in times for number in kept)
        wholes[bool(stored_count)] += 1
        if stored_count not in {0, len(kept)}:
            account.find("a transaction stored in part", f"{numbers[0]}-{numbers[-1]}")
    account.counts["transactions unknown and stored"] = wholes[True]
    account.counts["transactions unknown and not stored"] = wholes[False]
