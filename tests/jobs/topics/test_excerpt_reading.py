"""Stored batches as their producers would send them."""

import pytest

from penstock.jobs.topics.excerpt import Piece
from penstock.jobs.topics.excerpt_reading import Reading
from penstock.kafka.cluster.ranges import OffsetRange
from penstock.kafka.records.batch import read_batch
from penstock.policy import Header, Record
from tests.kafka.client.selection import selection
from tests.kafka.records.encoding import encode_batch

RECORDS = [Record(1000 + n, b"k", b"v%d" % n, (Header("h", b"x"),)) for n in range(4)]


def stored(base_offset, records=RECORDS, **options):
    """A batch as a broker stores it: with an offset and an epoch of its leader."""
    data = bytearray(encode_batch(records, **options))
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = (7).to_bytes(4, "big")
    return bytes(data)


def reading(pieces, log, bytes_max=2**30):
    """Read pieces of a log: batches by partition."""

    def read(piece):
        data = memoryview(b"".join(log[piece.range.partition]))
        return selection(data, piece.range.start, piece.range.end, None).batches

    return Reading(pieces, read, bytes_max, max_decompressed_bytes=2**20)


def piece(partition, start, end, *, is_first=True):
    return Piece(OffsetRange("orders", partition, start, end), is_first)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_gateway_reads_a_batch_as_it_was_sent(codec):
    (batch,) = reading([piece(5, 30, 34)], {5: [stored(30, codec=codec)]})
    assert (batch.topic, batch.partition, batch.record_count) == ("orders", 5, 4)
    assert batch.data is not None
    read = read_batch(batch.data, api_version=9, max_decompressed_bytes=2**20)
    assert [*read.records.values] == [record.value for record in RECORDS]
    assert [*read.records.timestamps] == [record.timestamp for record in RECORDS]
    assert batch.offset_of(2) == 32


def test_a_damaged_batch_is_reported_and_not_judged():
    data = bytearray(stored(30))
    data[-1] ^= 1
    first, second = reading([piece(5, 30, 40)], {5: [bytes(data), stored(34)]})
    assert (first.data, first.record_count) == (None, 4)
    assert second.data is not None


def test_each_batch_belongs_to_the_piece_in_which_it_begins():
    log = {0: [stored(n) for n in range(0, 40, 4)]}
    parts = [piece(0, 0, 10), piece(0, 10, 20, is_first=False), piece(0, 20, 40, is_first=False)]
    found = [batch.offset_of(0) for batch in reading(parts, log)]
    assert found == list(range(0, 40, 4))


def test_the_first_batch_counts_even_if_it_begins_before():
    log = {0: [stored(0), stored(4)]}
    assert [batch.offset_of(0) for batch in reading([piece(0, 2, 8)], log)] == [0, 4]


def test_each_piece_has_its_share_of_bytes_and_the_rest_of_earlier_pieces():
    size = len(stored(0))
    log = {0: [stored(n) for n in range(0, 80, 4)], 1: [stored(0)]}
    parts = [piece(1, 0, 4), piece(0, 0, 80)]
    found = reading(parts, log, 10 * size)
    assert [entry.partition for entry in found] == [1] + [0] * 9
    assert found.is_cut
    everything = reading(parts, log, 21 * size)
    assert len(list(everything)) == 21
    assert not everything.is_cut


def test_without_any_bytes_one_batch_of_each_piece_is_read():
    log = {0: [stored(0), stored(4)], 1: [stored(0)]}
    assert len(list(reading([piece(0, 0, 8), piece(1, 0, 4)], log, 0))) == 2
