"""Accepted records: large batches keep their bytes, small batches are merged, in order."""

import os
import random

import pytest

from penstock.jobs.batches.outgoing_records import SMALL_BYTES, OutgoingRecords
from penstock.jobs.batches.targets import Target
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.records.header import HEADER
from penstock.kafka.records.merged import MergedBatches
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.jobs.batches.memory import LIMIT, content, rows_of
from tests.kafka.records.encoding import CODECS, encode_stored, zigzag

pytestmark = pytest.mark.usefixtures("reading")
NOW = 1_700_000_000_000
OWN = (Header("own", b"1"), Header("none", None))
LOG_APPEND_TIME = 8


def kept(limit=LIMIT):
    return OutgoingRecords(Partition("orders", 3), Target("clean", 2, limit))


def batch(first, *values, timestamp=NOW, **fields):
    records = [
        Record(timestamp + 7 * n, b"%d" % (first + n), value, OWN) for n, value in enumerate(values)
    ]
    stored = encode_stored(records, base_offset=first, **fields)
    return read_stored_batch(stored, max_decompressed_bytes=LIMIT)


def add(records, stored, positions=None, replaced=None):
    positions = range(len(stored.records)) if positions is None else positions
    return list(records.add(stored, positions, replaced))


def rows(written):
    return [row for item in written for row in rows_of(item.batch)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_keeps_its_bytes(codec):
    large = batch(5, os.urandom(SMALL_BYTES), b"b", attributes=CODECS[codec])
    (written,) = add(kept(), large)
    assert written.batch is large.data
    assert (written.topic, written.partition, written.source.offset) == ("clean", 1, 5)


@pytest.mark.parametrize("codec", CODECS)
def test_small_batches_are_merged(codec):
    records, before = kept(), []
    for first in range(0, 90, 3):
        small = batch(first, b"a", None, b"", attributes=CODECS[codec], timestamp=NOW + first)
        assert add(records, small) == []
        before += rows_of(small.data)
    (written,) = records.rest()
    assert content(rows([written])) == content(before)
    assert {row.codec for row in rows([written])} == {codec}
    assert written.source.offset == 0
    assert list(records.rest()) == []


def test_a_batch_with_few_accepted_records_is_small():
    records, second = kept(), batch(0, os.urandom(SMALL_BYTES), b"little", os.urandom(SMALL_BYTES))
    assert add(records, second, [1]) == []
    (row,) = rows(records.rest())
    assert (row.key, row.value, row.timestamp) == (b"1", b"little", NOW + 7)


def test_waiting_records_are_written_before_a_large_batch():
    records = kept()
    assert add(records, batch(0, b"a")) == []
    written = add(records, batch(1, os.urandom(SMALL_BYTES)))
    written += add(records, batch(2, b"c"))
    assert [row.key for row in rows([*written, *records.rest()])] == [b"0", b"1", b"2"]


def test_many_records_do_not_wait_for_the_end():
    records, written = kept(), []
    for first in range(0, 20_000, 100):
        written += add(records, batch(first, *[b"x"] * 100))
    assert len(written) == 2
    written += records.rest()
    assert [int(row.key) for row in rows(written)] == list(range(20_000))


def test_records_that_interceptors_changed_are_written():
    records = kept()
    add(records, batch(0, b"a", b"b", b"c"), [0, 2], ([b"k", b"l", None], [b"A", b"B", None]))
    assert [(row.key, row.value) for row in rows(records.rest())] == [(b"k", b"A"), (None, None)]


def test_with_log_append_time_records_have_the_timestamps_of_the_source():
    records = kept()
    add(records, batch(0, b"a", b"b", attributes=LOG_APPEND_TIME, max_timestamp=NOW + 500))
    add(records, batch(2, b"c", timestamp=NOW - 10**12))
    assert [row.timestamp for row in rows(records.rest())] == [NOW + 500, NOW + 500, NOW - 10**12]


def test_header_keys_that_are_not_utf_8_keep_their_bytes_and_their_place():
    inside = b"\0" + zigzag(0) + zigzag(0) + b"\x02k\x02v" + zigzag(1) + b"\x02\xff\x021"
    odd = encode_stored([Record(NOW, b"k", b"v")], body=zigzag(len(inside)) + inside, base_offset=5)
    records = kept()
    assert add(records, batch(0, b"a")) == []
    assert add(records, read_stored_batch(odd, max_decompressed_bytes=LIMIT)) == []
    (written,) = records.rest()
    assert [row.key for row in rows([written])] == [b"0", b"k"]
    assert b"\x02\xff\x021" in bytes(written.batch)[HEADER.size :]


def test_too_large_a_record_is_an_error_with_its_offset():
    records = kept(900)
    add(records, batch(10, b"a", b"b"))
    with pytest.raises(RefusedBatchError, match="from orders, partition 3, offset 71"):
        add(records, batch(70, b"c", os.urandom(1000)))


def test_forgotten_records_are_not_written():
    records = kept()
    add(records, batch(0, b"a"))
    records.forget()
    assert list(records.rest()) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_batches_are_written_in_order(seed):
    chance, records, before, written = random.Random(seed), kept(), [], []
    for first in range(0, 3000, 30):
        sizes = chance.choice(([], [3, 0, 200], [SMALL_BYTES], [9] * 30))
        stored = batch(first, *map(chance.randbytes, sizes),
                    attributes=chance.choice([*CODECS.values()]),
                    timestamp=chance.choice([NOW, 0, -1, 2**62]))  # fmt: skip
        positions = [at for at in range(len(sizes)) if chance.random() < 0.8]
        written += add(records, stored, positions)
        all_rows = rows_of(stored.data)
        before += [all_rows[at] for at in positions]
    written += records.rest()
    assert content(rows(written)) == content(before)


@pytest.mark.parametrize("codec", CODECS)
def test_merged_batches_have_the_codec_of_their_batches(codec):
    records, waiting = kept(), MergedBatches()
    merged, before, stored = [], [], 0
    for first in range(0, 900, 15):
        source = batch(first, *[b"%0200d" % first] * 15, attributes=CODECS[codec])
        before, stored = before + rows_of(source.data), stored + len(source.data)
        merged += waiting.add(source)
    merged += waiting.rest()
    written = [some for stored in merged for some in add(records, stored)] + [*records.rest()]
    assert content(rows(written)) == content(before)
    assert {row.codec for row in rows(written)} == {codec}
    assert sum(len(item.batch) for item in written) <= stored
