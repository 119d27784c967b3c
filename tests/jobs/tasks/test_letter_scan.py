"""Whose letters are in a topic: batches are counted, and results of tasks are added."""

from types import SimpleNamespace

from penstock.jobs.batches.letter_topics import FoundLetters, LetterCounter, LetterTopics
from penstock.jobs.tasks.letter_scan import LetterScan, count_batch, scan_letters
from penstock.kafka.cluster.ranges import OffsetRange
from tests.jobs.batches.letters import connect, share_group


def batch_of(*records):
    """Return a batch of letters that begins at offset 7."""
    return SimpleNamespace(
        offsets=range(7, 7 + len(records)),
        records=SimpleNamespace(
            headers=[record.headers for record in records],
            keys=[record.key for record in records],
            values=[record.value for record in records],
        ),
    )


def count(*records):
    counter = LetterCounter(LetterTopics(("orders",)))
    count_batch(batch_of(*records), counter, "dead-3")
    return counter.found


def test_letters_are_counted_by_their_topics():
    found = count(*(connect(topic, 0, 1, 5, b"k", b"v") for topic in ("orders", "users", "orders")))
    assert (found.returning, found.others, found.strangers) == (2, {"users": 1}, 0)


def test_a_record_that_is_no_letter_is_named_by_its_place():
    record = SimpleNamespace(headers=[], key=None, value=b"v")
    found = count(connect("orders", 0, 1, 5, None, b"v"), record)
    assert (found.strangers, found.stranger) == (1, "dead-3, offset 8")


def test_a_letter_of_a_share_group_may_have_no_copy_of_its_record():
    empty = share_group("orders", 0, 1)
    assert (empty.key, empty.value) == (None, None)
    with_key, with_value = empty._replace(key=b"k"), empty._replace(value=b"")
    assert count(empty, with_key, with_value).without_record == 1


class Runner:
    """Returns what a merge makes of results, or None without tasks."""

    cores = 2

    def __init__(self, *results):
        self._results = [result.encode() for result in results]

    def run(self, tasks, work, merge, *, counter):
        self.tasks = tuple(tasks)
        return merge(iter(self._results)) if self._results else None


def scan(runner, *ranges):
    work = LetterScan(None, {}, None, LetterTopics())
    return scan_letters(runner, ranges, work, counter=None)


def test_results_of_tasks_are_added():
    runner = Runner(FoundLetters(2, {"users": 1}), FoundLetters(3, {"users": 4, "a": 1}))
    found = scan(runner, OffsetRange("dead", 0, 0, 10), OffsetRange("dead", 1, 0, 10))
    assert (found.returning, found.others) == (5, {"users": 5, "a": 1})
    assert sorted(part for task in runner.tasks for part in task.ranges) == [
        OffsetRange("dead", 0, 0, 10), OffsetRange("dead", 1, 0, 10),
    ]  # fmt: skip


def test_without_records_there_are_no_letters():
    assert scan(Runner()) == FoundLetters()
