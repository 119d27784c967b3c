"""Stored batches become batches of a producer: the header alone changes, byte for byte."""

import struct
from types import SimpleNamespace

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.kafka.client.protocol.produced_batches import (
    BatchSource,
    UnwritableBatch,
    record_count,
)
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.encoder import rebuild
from penstock.kafka.records.header import HEADER, as_produced, is_intact
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch
from tests.kafka.records.encoding import CODECS, encode_batch, values
from tests.kafka.records.implementations import IMPLEMENTATIONS, use

SOURCE = BatchSource("orders", 3, 4711)
PRODUCER = ProducerIdAndEpoch(2**40 + 7, 12)
LOG_APPEND_TIME, CONTROL, DELETE_HORIZON, TRANSACTIONAL = 0x08, 0x20, 0x40, 0x10


def stamped(batch, sequence=5, *, transactional=True):
    return b"".join(sent(batch, sequence, transactional))


def sent(batch, sequence, transactional):
    return as_produced(
        batch,
        producer_id=PRODUCER.producer_id,
        epoch=PRODUCER.epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def as_stored(batch, *, base_offset=4711, leader_epoch=9):
    """A batch as a broker stores it: the bytes that it changes are not in the checksum."""
    return (
        struct.pack(">q", base_offset) + batch[8:12] + struct.pack(">i", leader_epoch) + batch[16:]
    )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_equals_that_of_another_encoder(codec, transactional):
    records = values(b"one", None, b"three" * 900)
    theirs = {"producer_id": 99, "producer_epoch": 3, "base_sequence": 2**31 - 2}
    ours = {"producer_id": PRODUCER.producer_id, "producer_epoch": 12, "base_sequence": 5}
    for before in ({}, theirs, {**theirs, "transactional": True}):
        stored = as_stored(encode_batch(records, codec=codec, **before))
        expected = encode_batch(records, codec=codec, transactional=transactional, **ours)
        assert stamped(stored, transactional=transactional) == expected


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_a_batch_equals_that_of_aiokafka(codec, monkeypatch):
    # A gzip header has the second in which it was written.
    monkeypatch.setattr("gzip.time", SimpleNamespace(time=lambda: 1_700_000_000))

    def build(**producer):
        builder = DefaultRecordBatchBuilder(2, codec, batch_size=1 << 20, **producer)
        for number in range(60):
            builder.append(
                number, 1_700_000_000_000 + number, b"k%d" % number, b"v" * number, [("h", b"x")]
            )
        return bytes(builder.build())

    plain = build(is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    expected = build(
        is_transactional=1, producer_id=PRODUCER.producer_id, producer_epoch=12, base_sequence=5
    )
    assert stamped(as_stored(plain)) == expected


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_batch_that_was_cut(codec, implementation, monkeypatch):
    """The records of a batch that judges leave are written as a batch that was read."""
    use(implementation, monkeypatch)
    records = values(*(b"%d" % number for number in range(9)))
    original = read_batch(
        encode_batch(records, codec=codec), api_version=9, max_decompressed_bytes=1 << 20
    )
    kept = [1, 2, 5, 8]
    cut = rebuild(original, kept, [records[n].key for n in kept], [records[n].value for n in kept])
    assert record_count(cut, SOURCE) == 4
    read = read_batch(stamped(cut), api_version=9, max_decompressed_bytes=1 << 20)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (*PRODUCER, 5)
    assert list(read.records.values) == [b"1", b"2", b"5", b"8"]
    assert list(read.records.timestamps) == [records[n].timestamp for n in kept]
    assert read.codec == codec


def test_records_are_not_copied():
    batch = encode_batch(values(b"one", b"two"), codec="lz4")
    _, records = sent(batch, 0, transactional=True)
    assert records.obj is batch


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer(kind):
    batch = encode_batch(values(b"one", b"two"))
    assert record_count(kind(batch), SOURCE) == 2
    assert stamped(kind(batch)) == stamped(batch)


def test_a_part_of_a_buffer():
    batch = encode_batch(values(b"one", b"two"))
    part = memoryview(b"before" + batch + b"after")[6 : 6 + len(batch)]
    assert record_count(part, SOURCE) == 2
    assert stamped(part) == stamped(batch)


@pytest.mark.parametrize("bits", [LOG_APPEND_TIME, DELETE_HORIZON, LOG_APPEND_TIME | TRANSACTIONAL])
def test_bits_that_only_brokers_set_are_cleared(bits):
    """Each record has the timestamp again that its producer gave it."""
    records = values(b"one", b"two", b"three")
    for codec in CODECS.values():
        stored = encode_batch(records, codec=codec, attributes=codec | bits)
        written = stamped(stored)
        assert is_intact(written)
        assert struct.unpack_from(">h", written, 21)[0] == codec | TRANSACTIONAL
        read = read_batch(written, api_version=9, max_decompressed_bytes=1 << 20)
        assert list(read.records.timestamps) == [record.timestamp for record in records]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (b"", "magic 2"),
        (bytes(60), "magic 2"),
        (bytes(61), "magic 2"),
        (encode_batch(values(b"v"), magic=1), "magic 2"),
        (encode_batch(values(b"v")) + b"\0", "not exactly one"),
        (encode_batch(values(b"v")) * 2, "not exactly one"),
        (encode_batch(values(b"v"))[:-1], "not exactly one"),
        (encode_batch(values(b"v"), crc=1), "does not match its checksum"),
        (encode_batch(values(b"v"))[:-2] + b"w\0", "does not match its checksum"),
        (encode_batch(values(b"v"), attributes=CONTROL), "a control batch"),
        (encode_batch(values(b"v"), attributes=CONTROL | TRANSACTIONAL), "a control batch"),
        (encode_batch(values(b"v"), last_offset_delta=4), "1 records at 5 offsets"),
        (encode_batch([], count=0, last_offset_delta=2), "0 records at 3 offsets"),
        (encode_batch(values(b"v"), count=-1, last_offset_delta=-2), "-1 records at -1 offsets"),
    ],
)
def test_batches_that_no_broker_accepts(batch, reason):
    with pytest.raises(UnwritableBatch, match=f"orders, partition 3, offset 4711: .*{reason}"):
        record_count(batch, SOURCE)


def test_the_header_has_no_other_fields():
    """A new refusal needs a decision about its handling."""
    assert HEADER.size == 61
    assert sum(struct.calcsize(">" + kind) for kind in "qiibIhiqqqhii") == HEADER.size
