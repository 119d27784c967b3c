"""Dead letters of several batches are written in order, unchanged, in few batches that fit."""

import random

import pytest

from penstock.jobs.batches.buffers import DeadLetterBuffer, RecordBuffer
from penstock.jobs.batches.targets import Target
from penstock.kafka.client.protocol.write_errors import RefusedBatchError
from penstock.kafka.cluster.ranges import Partition
from penstock.kafka.records.header import HEADER
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.jobs.batches.memory import LIMIT, rows_of
from tests.kafka.records.encoding import CODECS, encode_stored, zigzag

pytestmark = pytest.mark.usefixtures("reading")
NOW, LATER = 1_700_000_000_000, 1_800_000_000_000
OWN = (Header("own", b"1"), Header("__penstock.code", b"old"), Header("none", None))


def buffered(limit=LIMIT):
    return DeadLetterBuffer(Partition("orders", 3), Target("dead", 2, limit), lambda: LATER / 1e3)


def batch(first, count, *, size=1, **fields):
    records = [Record(NOW, b"%d" % n, b"x" * size, OWN) for n in range(first, first + count)]
    stored = encode_stored(records, base_offset=first, **fields)
    return read_stored_batch(stored, max_decompressed_bytes=LIMIT)


def add(letters, stored):
    appended = [[("__dlq.errors.offset", b"%d" % offset)] for offset in stored.offsets]
    return list(letters.add(stored, range(len(appended)), appended))


def test_few_letters_of_each_batch_wait_for_more():
    letters = buffered()
    for first in range(0, 30, 3):
        assert add(letters, batch(first, 3, attributes=3)) == []
    (entry,) = letters.rest()
    assert (entry.topic, entry.partition) == ("dead", 1)
    assert (entry.source.partition, entry.source.offset) == (3, 0)
    rows = rows_of(entry.batch)
    assert [row.key for row in rows] == [b"%d" % n for n in range(30)]
    assert {(row.timestamp, row.codec) for row in rows} == {(LATER, "lz4")}
    assert rows[7].headers == [("own", b"1"), ("none", None), ("__dlq.errors.offset", b"7")]
    assert list(letters.rest()) == []


def test_many_letters_are_written_in_order():
    letters, written = buffered(), []
    for first, count in ((0, 2), (2, 501), (600, 3), (700, 12_000), (20_000, 1)):
        written += add(letters, batch(first, count))
    assert len(written) == 2
    written += letters.rest()
    rows = [row for item in written for row in rows_of(item.batch)]
    numbers = [int(row.key) for row in rows]
    assert numbers == sorted(numbers)
    assert len(numbers) == 2 + 501 + 3 + 12_000 + 1
    assert {tuple(name for name, _ in row.headers) for row in rows} == {
        ("own", "none", "__dlq.errors.offset")
    }


def test_each_letter_has_the_time_at_which_it_was_added():
    times = iter((LATER / 1e3, LATER / 1e3 + 5, LATER / 1e3 - 1))
    letters = DeadLetterBuffer(
        Partition("orders", 3), Target("dead", 2, LIMIT), lambda: next(times)
    )
    for first in range(3):
        add(letters, batch(first, 1))
    (item,) = letters.rest()
    assert [row.timestamp - LATER for row in rows_of(item.batch)] == [0, 5000, -1000]
    found = read_stored_batch(item.batch, max_decompressed_bytes=LIMIT)
    assert found.max_timestamp == LATER + 5000


def test_large_letters_do_not_wait_for_more():
    letters = buffered()
    assert add(letters, batch(0, 2, size=100_000)) == []
    assert len(add(letters, batch(2, 1, size=100_000))) == 1


def test_letters_with_large_headers_do_not_wait_for_more():
    letters, stored = (
        buffered(),
        encode_stored([Record(NOW, None, None, (Header("h", b"x" * 200_000),))]),
    )
    batch = read_stored_batch(stored, max_decompressed_bytes=LIMIT)
    assert add(letters, batch) == []
    assert len(add(letters, batch)) == 1


def test_header_keys_that_are_not_utf_8_keep_their_bytes_and_their_place():
    inside = b"\0" + zigzag(0) + zigzag(0) + b"\x02k\x02v" + zigzag(1) + b"\x02\xff\x021"
    odd = encode_stored([Record(NOW, b"k", b"v")], body=zigzag(len(inside)) + inside, base_offset=5)
    letters = buffered()
    assert add(letters, batch(0, 2)) == []
    assert add(letters, read_stored_batch(odd, max_decompressed_bytes=LIMIT)) == []
    (item,) = letters.rest()
    assert [row.key for row in rows_of(item.batch)] == [b"0", b"1", b"k"]
    assert b"\x02\xff\x021" in item.batch[HEADER.size :]


def test_too_large_a_batch_is_split_and_too_large_a_letter_is_an_error():
    letters, written = buffered(600), []
    for first in range(10):
        written += add(letters, batch(first, 1, size=200))
    written += letters.rest()
    assert len(written) > 4
    assert all(len(item.batch) <= 600 for item in written)
    assert [row.key for item in written for row in rows_of(item.batch)] == [
        b"%d" % n for n in range(10)
    ]
    add(letters, batch(70, 1))
    with pytest.raises(RefusedBatchError, match="from orders, partition 3, offset 77"):
        add(letters, batch(77, 1, size=900))


@pytest.mark.parametrize("codec", CODECS)
def test_letters_that_cannot_be_compressed_fit_the_target_too(codec):
    chance, batches = random.Random(1), []
    for first in range(0, 300, 5):
        records = [Record(NOW, b"%d" % (first + n), chance.randbytes(190)) for n in range(5)]
        stored = encode_stored(records, base_offset=first, attributes=CODECS[codec])
        batches.append(read_stored_batch(stored, max_decompressed_bytes=LIMIT))
    for limit in (*range(20_000, 20_400, 7), *range(262_000, 262_400, 25), 400, 300):
        waiting, written = RecordBuffer(Partition("orders", 0), Target("clean", 1, limit)), []
        for batch in batches if limit < 100_000 else batches * 5:
            written += waiting.add(batch, range(5))
        written += waiting.rest()
        assert max(len(item.batch) for item in written) <= limit
        numbers = [int(row.key) for item in written for row in rows_of(item.batch)]
        assert numbers == [*range(300)] * (1 if limit < 100_000 else 5)


def test_forgotten_letters_are_not_written():
    letters = buffered()
    add(letters, batch(0, 5))
    letters.forget()
    assert list(letters.rest()) == []
