"""Small batches that are judged together: the same records, with their offsets and times."""

import os
import random
from dataclasses import replace

import pytest

from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.merged import MergedBatches, SmallBatchReader
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.kafka.records.uncompressed import BatchLimits
from penstock.policy import Header, Record
from tests.jobs.batches.memory import LIMIT
from tests.kafka.client.random_log import random_log
from tests.kafka.records.encoding import CODECS, encode_stored, zigzag
from tests.kafka.records.implementations import PYTHON

pytestmark = pytest.mark.usefixtures("reading")
NOW = 1_700_000_000_000
OWN = (Header("own", b"1"), Header("none", None))
LOG_APPEND_TIME = 8
LIMITS = BatchLimits(LIMIT, 100_000)


def batch(first, *values, timestamp=NOW, **fields):
    records = [
        Record(timestamp + 7 * n, b"%d" % (first + n), value, OWN) for n, value in enumerate(values)
    ]
    stored = encode_stored(records, base_offset=first, **fields)
    return read_stored_batch(stored, max_decompressed_bytes=LIMIT)


def merged(batches):
    waiting, found = MergedBatches(), []
    for batch in batches:
        found += waiting.add(batch)
    return [*found, *waiting.rest()]


def rows(batches):
    return [
        row
        for batch in batches
        for row in zip(
            batch.offsets, batch.records.timestamps, batch.records.keys, batch.records.values,
            batch.records.headers, strict=True,
        )
    ]  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_consecutive_small_batches_are_merged(codec):
    before = [batch(n, b"a", None, attributes=CODECS[codec]) for n in range(10, 40, 2)]
    (found,) = merged(before)
    assert rows([found]) == rows(before)
    assert found.codec == codec
    assert (found.base_offset, found.last_offset, found.is_whole) == (10, 39, True)


def test_batches_are_not_merged_across_gaps_and_large_batches():
    before = [
        batch(0, b"a"), batch(1, b"b"), batch(3, b"c"), batch(4, os.urandom(20_000)), batch(5, b"d"),
        batch(6, b"e"),
    ]  # fmt: skip
    found = merged(before)
    assert rows(found) == rows(before)
    assert [len(batch.records) for batch in found] == [2, 1, 1, 2]
    assert found[1] is before[2]
    assert found[2] is before[3]


def test_a_batch_that_is_only_small_compressed_is_not_merged():
    before = [batch(0, b"a"), batch(1, b"b"), batch(2, b"0" * 10**6, attributes=CODECS["zstd"])]
    before += [batch(3, b"0" * 10**6, attributes=CODECS["gzip"]), batch(4, b"c"), batch(5, b"d")]
    found = merged(before)
    assert rows(found) == rows(before)
    assert [len(batch.records) for batch in found] == [2, 1, 1, 2]
    assert found[1:3] == before[2:4]


def test_a_part_of_a_batch_is_not_merged():
    part = batch(0, b"a", b"b", b"c").between(1, 3)
    assert merged([part, batch(3, b"d"), batch(4, b"e")])[0] is part


def test_many_batches_do_not_wait_for_the_end():
    before = [batch(n, b"x") for n in range(1000)]
    found = merged(before)
    assert rows(found) == rows(before)
    assert len(found) == 3


def test_times_of_the_broker_are_kept():
    before = [
        batch(0, b"a", b"b", attributes=LOG_APPEND_TIME, max_timestamp=NOW + 500),
        batch(2, b"c", timestamp=NOW - 10**12),
        batch(3, b"d", attributes=LOG_APPEND_TIME, max_timestamp=NOW + 900),
    ]
    (found,) = merged(before)
    assert rows([found]) == rows(before)
    assert not found.is_log_append_time


def test_header_keys_that_are_not_utf_8_keep_their_bytes():
    inside = b"\0" + zigzag(0) + zigzag(0) + b"\x02k\x02v" + zigzag(1) + b"\x02\xff\x021"
    odd = encode_stored([Record(NOW, b"k", b"v")], body=zigzag(len(inside)) + inside, base_offset=1)
    (found,) = merged([batch(0, b"a"), read_stored_batch(odd, max_decompressed_bytes=LIMIT)])
    assert b"\x02\xff\x021" in found.cut([1])


def test_forgotten_batches_are_not_returned():
    waiting = MergedBatches()
    assert list(waiting.add(batch(0, b"a"))) == []
    waiting.forget()
    assert list(waiting.rest()) == []


@pytest.mark.parametrize("seed", range(10))
def test_merging_random_batches_changes_no_record(seed):
    chance, before, first = random.Random(seed), [], 0
    for _ in range(80):
        sizes = chance.choice(([5], [3, 0, 200], [17_000], [9] * 30, [1] * 101))
        before.append(
            batch(first, *map(chance.randbytes, sizes),
                  attributes=chance.choice([*CODECS.values()]),
                  timestamp=chance.choice([NOW, 0, -1, 2**62]))
        )  # fmt: skip
        first += len(sizes) + chance.choice((0, 0, 0, 2))
    assert rows(merged(before)) == rows(before)


def native_only(reading):
    if reading is PYTHON:
        pytest.skip("in Python, batches are read before they are merged")


def of_response(batches, first=0, end=2**62, *, with_transactions=True):
    response = memoryview(b"".join(batches))
    reader = SmallBatchReader(response, LIMITS, with_transactions=with_transactions)
    return reader.read(0, first, end)


def readable(batches):
    """Return the first batches of some, up to one that cannot be read."""
    found = []
    for stored in batches:
        try:
            found.append(read_stored_batch(stored, max_decompressed_bytes=LIMIT))
        except UnreadableRecords:
            break
    return found


@pytest.mark.parametrize("seed", range(20))
def test_batches_merged_while_they_are_read_have_the_same_bytes(reading, seed):
    native_only(reading)
    batches, runs = random_log(seed).batches, 0
    while batches:
        found = of_response(batches)
        if found is None:
            batches = batches[1:]
            continue
        sizes = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
        count = sizes.index(found.stored_bytes) + 1
        assert count > 1
        [expected] = merged(readable(batches[:count]))
        assert found.batch == replace(expected, records=found.batch.records)
        assert bytes(found.batch.data) == bytes(expected.data)
        assert rows([found.batch]) == rows([expected])
        assert found.leader_epoch == 3
        # As many as Python merges: codecs and transactions aside.
        following = readable(batches[count : count + 1])
        if following and following[0].codec != "zstd" and not following[0].is_control:
            assert merged([found.batch, *following])[0] is found.batch or len(batches[count]) > 100
        batches, runs = batches[count:], runs + 1
    assert runs


@pytest.mark.parametrize("seed", range(5))
def test_a_response_that_ends_anywhere(reading, seed):
    native_only(reading)
    chance, whole = random.Random(seed), b"".join(random_log(seed).batches[:40])
    for _ in range(300):
        response = bytearray(whole[: chance.randrange(len(whole))])
        if response and seed:
            response[chance.randrange(len(response))] ^= 1 << chance.randrange(8)
        found = of_response([bytes(response)])
        assert found is None or found.stored_bytes <= len(response)


def test_only_batches_within_the_range_are_merged(reading):
    native_only(reading)
    stored = [encode_stored([Record(NOW, b"k", b"v")] * 2, base_offset=n) for n in (4, 6, 8)]
    assert of_response(stored, 4, 10).batch.last_offset == 9
    assert of_response(stored, 3, 9).batch.last_offset == 7
    assert of_response(stored, 5, 10) is None
    assert of_response(stored, 4, 7) is None
    assert of_response([]) is None
