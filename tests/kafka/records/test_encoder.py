"""A rewritten batch: its kept and replaced records, and its header."""

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.encoder import rebuild
from penstock.policy import Record
from tests.kafka.records.encoding import CODECS, NOW, RECORDS, encode_batch
from tests.kafka.records.sections import RECORD

pytestmark = pytest.mark.usefixtures("reading")


def read(data):
    return read_batch(data, api_version=9, max_decompressed_bytes=1 << 24)


def rebuilt(data, changes):
    """Return the batch with changed records, by position, and the records read from it."""
    batch = read(data)
    keys = [batch.records.keys[at] if new is None else new[0] for at, new in changes.items()]
    values = [batch.records.values[at] if new is None else new[1] for at, new in changes.items()]
    written = rebuild(batch, list(changes), keys, values)
    return written, read(written)


def rows(batch):
    records = batch.records
    return list(zip(records.timestamps, records.keys, records.values, records.headers, strict=True))


def expected(records, changes):
    """The records with the changes."""
    return [
        records[at] if new is None else records[at]._replace(key=new[0], value=new[1])
        for at, new in changes.items()
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "changes",
    [
        {0: None},
        {3: None},
        {1: None, 2: None, 3: None},
        {0: None, 2: (None, b"n" * 200), 3: None},
        {0: (b"other", None), 1: (b"", b""), 2: (b"k", b"k"), 3: (None, None)},
    ],
)
def test_kept_and_replaced_records_are_written(codec, changes):
    data = encode_batch(
        RECORDS, codec=codec, producer_id=7, producer_epoch=3, base_sequence=11, transactional=True
    )
    written, batch = rebuilt(data, changes)
    wanted = expected(RECORDS, changes)
    assert rows(batch) == [tuple(record) for record in wanted]
    assert batch.codec == codec
    assert batch.attributes & 0x10
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 11)
    assert batch.base_timestamp == NOW
    assert batch.max_timestamp == max(record.timestamp for record in wanted)
    assert struct.unpack_from(">I", written, 17) == (crc32c.crc32c(written[21:]),)
    if codec == "none":
        assert written == as_written(wanted)


def as_written(records):
    """Return the batch that a producer would have sent, with the base timestamp of the original."""
    first = Record(NOW, None, None)
    size = len(encode_batch([first])) - 61
    body = encode_batch([first, *records])[61 + size :]
    # The offset deltas are those of a batch that has one record more: each takes one byte.
    assert len(records) < 60
    fixed = bytearray(body)
    position = 0
    for delta in range(len(records)):
        length, taken = varint(fixed, position)
        _, more = varint(fixed, position + taken + 1)
        fixed[position + taken + 1 + more] = 2 * delta
        position += taken + length
    latest = max(record.timestamp for record in records)
    data = encode_batch(
        records, body=bytes(fixed), producer_id=7, producer_epoch=3, base_sequence=11,
        transactional=True,
    )  # fmt: skip
    head = bytearray(data)
    struct.pack_into(">qq", head, 27, NOW, latest)
    struct.pack_into(">I", head, 17, crc32c.crc32c(bytes(head[21:])))
    return bytes(head)


def varint(data, position):
    """A number, and how many bytes it takes."""
    value, taken = 0, 0
    while True:
        byte = data[position + taken]
        value |= (byte & 0x7F) << 7 * taken
        taken += 1
        if byte < 0x80:
            return value >> 1, taken


def test_a_batch_without_timestamps_is_rewritten():
    records = [Record(-1, None, b"a"), Record(-1, None, b"b"), Record(5, None, b"c")]
    _, batch = rebuilt(encode_batch(records), {1: None, 2: (b"k", b"d")})
    assert rows(batch) == [(-1, None, b"b", ()), (5, b"k", b"d", ())]
    assert (batch.base_timestamp, batch.max_timestamp) == (-1, 5)


def test_timestamps_that_overflow_stay_unchanged():
    data = bytearray(encode_batch([Record(0, None, b"a"), Record(10, None, b"b")]))
    struct.pack_into(">q", data, 27, 2**63 - 1)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    _, batch = rebuilt(bytes(data), {1: (None, b"c")})
    assert batch.records.timestamps == (-(2**63) + 9,)
    assert (batch.base_timestamp, batch.max_timestamp) == (2**63 - 1, -(2**63) + 9)


def test_more_records_than_a_byte_can_number_are_written():
    records = [Record(NOW + i, b"%d" % i, b"v" * (i % 90)) for i in range(500)]
    changes = {at: None for at in range(500) if at % 3}
    _, batch = rebuilt(encode_batch(records), changes)
    assert rows(batch) == [tuple(record) for record in expected(records, changes)]


@pytest.mark.thorough
@settings(max_examples=150)
@given(st.lists(RECORD, min_size=1, max_size=12), st.data())
def test_random_changes_are_written(records, data):
    kept = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    fields = st.none() | st.binary(max_size=100)
    changes = {at: data.draw(st.none() | st.tuples(fields, fields)) for at in kept}
    _, batch = rebuilt(encode_batch(records), changes)
    assert rows(batch) == [
        (record.timestamp, record.key, record.value, tuple(record.headers))
        for record in expected(records, changes)
    ]
