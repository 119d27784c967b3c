"""What of a response belongs to a range, and to a reader of committed records."""

import random

import pytest

from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.client.protocol.fetch import AbortedTransaction
from penstock.kafka.client.reading.batches import read_fetched_batch, select
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.uncompressed import BatchLimits
from tests.kafka.client.random_log import random_log
from tests.kafka.client.selection import selection
from tests.kafka.client.stored import batch, damaged, empty, marker

LIMITS = BatchLimits(1 << 26, 100_000)


def selected(*batches, position=0, end=1000, aborted=()):
    """Return the (first, end) of the selected batches, and where to continue."""
    found = selection(memoryview(b"".join(batches)), position, end, aborted)
    return [(batch.first, batch.end) for batch in found.batches], found.position


def test_the_bytes_of_batches_are_those_of_the_response():
    stored = [batch(10, 3, epoch=4), batch(13, 2, epoch=5, codec="lz4")]
    response = memoryview(b"".join(stored))
    found = selection(response, 10, 100, [])
    assert [bytes(batch.data) for batch in found.batches] == stored
    assert all(batch.data.obj is response.obj for batch in found.batches)
    assert [batch.readable_behind for batch in found.batches] == [len(stored[1]), 0]
    first, second = found.batches
    assert (first.base_offset, first.last_offset, first.record_count) == (10, 12, 3)
    assert (first.leader_epoch, second.leader_epoch, second.attributes & 7) == (4, 5, 3)
    assert (first.producer_id, first.base_sequence) == (-1, -1)
    assert first.is_whole and second.is_whole
    assert (found.position, found.leader_epoch, found.largest) == (15, 5, max(map(len, stored)))


@pytest.mark.parametrize(
    ("position", "end", "wanted", "after"),
    [
        (10, 30, [(10, 20), (20, 30)], 30),
        (13, 30, [(13, 20), (20, 30)], 30),
        (10, 25, [(10, 20), (20, 25)], 25),
        (10, 20, [(10, 20)], 20),
        (19, 21, [(19, 20), (20, 21)], 21),
        (12, 13, [(12, 13)], 13),
        (20, 30, [(20, 30)], 30),
    ],
)
def test_the_edges_of_a_range_are_inside_batches(position, end, wanted, after):
    batches = (batch(10, 10), batch(20, 10), batch(30, 10))
    assert selected(*batches, position=position, end=end) == (wanted, after)
    found = selection(memoryview(b"".join(batches)), position, end, [])
    assert [batch.is_whole for batch in found.batches] == [b - a == 10 for a, b in wanted]


def test_gaps_and_empty_batches_of_compaction():
    batches = (batch(5, 2), empty(10, 10), batch(40, 1))
    assert selected(*batches, position=2, end=100) == ([(5, 7), (40, 41)], 41)
    assert selected(empty(10, 10), position=12, end=100) == ([], 20)
    assert selected(batch(5, 2), batch(40, 1), position=2, end=20) == ([(5, 7)], 20)


def test_a_last_batch_that_is_incomplete():
    whole, cut = batch(0, 2), batch(2, 2)
    for length in range(len(cut)):
        assert selected(whole, cut[:length]) == ([(0, 2)], 2)


def test_no_complete_batch_at_all():
    with pytest.raises(UnreadableBatchError, match=r"offset 3.* no complete batch"):
        selected(batch(3)[:-1], position=3)


def test_nothing():
    assert selected(position=4) == ([], 4)


class TestTransactions:
    """Producers 1 and 2 write in turn; aborted are 1's from 0 and 2's from 10 on."""

    LOG = (
        batch(0, 2, producer=1),
        batch(2, 2, producer=2),
        batch(4, 1),
        marker(5, 1, commit=False),
        batch(6, 2, producer=1),
        marker(8, 2, commit=True),
        marker(9, 1, commit=True),
        batch(10, 1, producer=2),
        batch(11, 1, producer=1),
        marker(12, 2, commit=False),
        marker(13, 1, commit=True),
        batch(14, 1, producer=2),
    )
    ABORTED = (AbortedTransaction(2, 10), AbortedTransaction(1, 0))

    def test_committed(self):
        wanted = [(2, 4), (4, 5), (6, 8), (11, 12), (14, 15)]
        assert selected(*self.LOG, aborted=self.ABORTED) == (wanted, 15)

    def test_uncommitted(self):
        wanted = [(0, 2), (2, 4), (4, 5), (6, 8), (10, 11), (11, 12), (14, 15)]
        assert selected(*self.LOG, aborted=None) == (wanted, 15)

    def test_from_the_middle_of_a_transaction(self):
        """A broker lists the transaction with its first offset, though that is before."""
        found = selected(*self.LOG[4:], position=6, aborted=[AbortedTransaction(2, 10)])
        assert found == ([(6, 8), (11, 12), (14, 15)], 15)
        found = selected(*self.LOG[1:], position=2, aborted=self.ABORTED)
        assert found == ([(2, 4), (4, 5), (6, 8), (11, 12), (14, 15)], 15)

    def test_the_same_producer_without_a_transaction(self):
        plain = batch(1, 1, producer=1, attributes=0)
        assert selected(plain, aborted=[AbortedTransaction(1, 0)]) == ([(1, 2)], 2)

    def test_a_marker_that_was_compacted(self):
        log = (batch(0, 1, producer=1), marker(1, 1, commit=False)[:0], batch(2, 1))
        assert selected(*log, aborted=[AbortedTransaction(1, 0)]) == ([(2, 3)], 3)

    @pytest.mark.parametrize("at", [0, 3])
    def test_left_out_batches_must_be_intact(self, at):
        log = [*self.LOG]
        log[at] = damaged(log[at])
        with pytest.raises(UnreadableBatchError, match=r"offset \d: .* checksum"):
            selected(*log, aborted=self.ABORTED)

    def test_a_marker_without_a_key(self):
        cut = batch(0, 1, producer=1, attributes=0x30, body=b"\x04\0\0")
        with pytest.raises(UnreadableBatchError, match="its marker cannot be read"):
            selected(cut)


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ([batch(5, 2), batch(6, 2)], "go back"),
        ([batch(5, 2), batch(3, 1)], "go back"),
        ([batch(5, 2, last_offset_delta=-1)], "go back"),
        ([batch(5, length=4)], "length is wrong"),
        ([batch(5, length=-1)], "length is wrong"),
        ([batch(5, length=20)], "header is incomplete"),
        ([batch(5, magic=3)], "magic is 3"),
    ],
)
def test_unreadable_batches(log, text):
    with pytest.raises(UnreadableBatchError, match=text):
        selected(*log, position=5)


@pytest.mark.parametrize(
    ("position", "end", "offsets"),
    [(0, 100, [10, 11, 12, 13]), (11, 13, [11, 12]), (12, 100, [12, 13]), (0, 11, [10])],
)
def test_a_batch_is_read_with_its_records_in_the_range(position, end, offsets):
    (fetched,) = selection(memoryview(batch(10, 4)), position, end, []).batches
    found = read_fetched_batch(fetched, max_decompressed_bytes=1000)
    assert list(found.offsets) == offsets


@pytest.mark.parametrize("limits", [(1000, 3), (10, 4)])
def test_the_limits_are_those_of_the_whole_batch(limits):
    (fetched,) = selection(memoryview(batch(10, 4)), 11, 12, []).batches
    size, count = limits
    with pytest.raises(UnreadableRecords):
        read_fetched_batch(fetched, max_decompressed_bytes=size, max_records=count)


def rows(batches):
    """Return all records of batches with their offsets, and what batches cannot be read."""
    found = []
    for fetched in batches:
        try:
            read = read_fetched_batch(fetched, max_decompressed_bytes=LIMITS.decompressed_bytes)
        except UnreadableRecords as wrong:
            found.append((fetched.first, fetched.end, wrong.message))
            continue
        records = read.records
        found += zip(
            read.offsets, records.timestamps, records.keys, records.values, records.headers,
            strict=True,
        )  # fmt: skip
    return found


@pytest.mark.parametrize("seed", range(40))
def test_merging_small_batches_changes_no_record(seed):
    log, chance = random_log(seed), random.Random(seed)
    response = memoryview(b"".join(log.batches))
    edges = chance.choice(([0, log.end], sorted(chance.sample(range(log.end + 9), 2))))
    response = response[: chance.choice((None, -30))]
    aborted = chance.choice((log.aborted, None))
    each = selection(response, *edges, aborted)
    found = selection(response, *edges, aborted, LIMITS)
    assert rows(found.batches) == rows(each.batches)
    assert found[1:] == each[1:]
    ends = [batch.end for batch in each.batches]
    assert all(batch.end in ends for batch in found.batches)


def test_small_batches_are_merged_within_limits():
    stored = [batch(n, epoch=n) for n in range(10, 15)]
    response = memoryview(b"".join([*stored, damaged(batch(15)), batch(16), batch(17)]))
    found = selection(response, 11, 17, [], LIMITS)
    assert [(batch.first, batch.end) for batch in found.batches] == [(11, 15), (15, 16), (16, 17)]
    merged = found.batches[0]
    assert bytes(merged.data) == b"".join(stored[1:])
    assert (merged.leader_epoch, merged.record_count, merged.is_whole) == (14, 4, True)
    assert [batch.merged_batch is None for batch in found.batches] == [False, True, True]
    for limits in (BatchLimits(10, 100), BatchLimits(1000, 0)):
        assert len(selection(response, 11, 17, [], limits).batches) == 6


def test_batches_of_transactions_are_merged_if_none_was_aborted():
    log = memoryview(b"".join(batch(n, producer=n) for n in range(5)))
    assert len(selection(log, 0, 5, [], LIMITS).batches) == 1
    assert len(selection(log, 0, 5, None, LIMITS).batches) == 1
    assert len(selection(log, 0, 5, [AbortedTransaction(3, 3)], LIMITS).batches) == 4


@pytest.mark.parametrize("aborted", [(), (AbortedTransaction(7, 60),)])
def test_memory_for_merged_records_does_not_depend_on_compression(aborted):
    """Of 100 batches that decompress to a thousand times their size, with a marker among them."""
    payload = {"payload": bytes(50_000), "codec": "zstd"}
    stored = [batch(n, **payload) for n in range(100)]
    stored[60] = batch(60, producer=7, **payload)
    stored[80] = marker(80, 7, commit=not aborted)
    response = memoryview(b"".join(stored))
    each = selection(response, 0, 100, aborted)
    parts = 0
    for part in select(response, 0, 100, aborted, LIMITS):
        parts += 1
        merged = [batch.merged_bytes for batch in part.batches if batch.merged_batch is not None]
        assert sum(merged[:-1]) < len(response)
    assert parts > 40
    found = selection(response, 0, 100, aborted, LIMITS)
    assert rows(found.batches) == rows(each.batches)
    assert found[1:] == each[1:]
