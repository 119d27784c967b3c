"""Message sets of magic 0 and 1."""

import zlib

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock.kafka.client.errors import UnreadableBatchError
from penstock.kafka.client.reading.batches import select
from penstock.kafka.records.batch import read_batch

MESSAGES = [(7, 1000, b"k", b"one"), (8, 900, None, b"two"), (9, 1100, b"k", None)]


def message_set(magic, codec, base=7):
    """Messages as a broker of that time stores them."""
    builder = LegacyRecordBatchBuilder(magic, codec, 2**20)
    for offset, timestamp, key, value in MESSAGES:
        builder.append(offset - (base if codec and magic else 0), timestamp, key, value)
    data = bytearray(builder.build())
    if codec:
        # A broker sets the wrapper's offset to that of the last message.
        data[:8] = MESSAGES[-1][0].to_bytes(8, "big")
    return bytes(data)


def read(data, position=7, end=100):
    """Return (offset, timestamp, key, value) by the reader of batches."""
    found = []
    [selection] = select(memoryview(data), position, end, [])
    for batch in selection.batches:
        # The reader of producers' batches wants them at offset 0.
        at_zero = bytes(8) + bytes(batch.data[8:])
        records = read_batch(at_zero, api_version=9, max_decompressed_bytes=2**20).records
        offsets = range(batch.base_offset, batch.last_offset + 1)
        found += zip(offsets, records.timestamps, records.keys, records.values, strict=True)
    return found, selection.position


# Of magic 0 there is no lz4 that others than Java could read (KAFKA-3160).
@pytest.mark.parametrize(
    ("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
)
def test_messages(magic, codec):
    wanted = [m if magic else (m[0], -1, *m[2:]) for m in MESSAGES]
    assert read(message_set(magic, codec)) == (wanted, 10)


def test_a_message_that_is_damaged():
    data = bytearray(message_set(1, 0))
    data[-1] ^= 1
    with pytest.raises(UnreadableBatchError, match=r"offset 9: .* checksum"):
        read(bytes(data))


def test_a_set_that_is_damaged_inside():
    data = bytearray(message_set(1, 1))
    data[60] ^= 0xFF
    data[12:16] = zlib.crc32(bytes(data[16:])).to_bytes(4, "big")
    with pytest.raises(UnreadableBatchError, match=r"a message set of magic 1: \w+"):
        read(bytes(data))
