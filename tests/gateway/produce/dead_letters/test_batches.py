"""Batches of dead letters that are joined to one batch."""

import pytest

from penstock.gateway.produce.dead_letters.batches import join_letters
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch

FIRST = [
    Record(1_000, b"k", b"a", (Header("__dlq.policy", b"p"), Header("empty", None))),
    Record(1_005, None, None, ()),
]
SECOND = [Record(900, None, b"b" * 500, ()), Record(2_000, b"k", b"", (Header("h", b"1"),))]


def records_of(batch):
    read = read_stored_batch(batch, max_decompressed_bytes=2**20).records
    fields = zip(read.timestamps, read.keys, read.values, read.headers, strict=True)
    return [
        (time, key, value, [tuple(header) for header in headers])
        for time, key, value, headers in fields
    ]


@pytest.mark.parametrize("codecs", [(0, 0, 0), (1, 1, 1), (4, 0, 2)], ids=str)
def test_a_joined_batch_has_all_letters_in_their_order(codecs):
    batches = [
        encode_batch(records, codec=codec)
        for records, codec in zip((FIRST, SECOND, FIRST), codecs, strict=True)
    ]
    joined = join_letters([memoryview(batch) for batch in batches])
    assert records_of(joined) == [record for batch in batches for record in records_of(batch)]
    read = read_stored_batch(joined, max_decompressed_bytes=2**20)
    assert read.is_whole
    assert (read.base_offset, read.last_offset, read.max_timestamp) == (0, 5, 2_000)
    assert read.attributes == codecs[0]
    assert (read.producer_id, read.base_sequence) == (-1, -1)


def test_a_single_batch_stays_as_it_is():
    batch = encode_batch(FIRST)
    assert join_letters([batch]) is batch
