"""The batches that read_batch accepts, and the error codes of others."""

import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import TRANSACTIONAL
from penstock.policy import Header, Record
from tests.kafka.records import oracle
from tests.kafka.records.encoding import CODECS, compress, encode_batch, values, zigzag
from tests.kafka.records.implementations import SLACK
from tests.kafka.records.wide import WIDE, read, record, refusal

NOW = 1_700_000_000_000
RECORDS = [
    Record(NOW, b"key", b"value", [Header("name", b"x"), Header("name", None), Header("", b"")]),
    Record(NOW - 5, None, b"v" * 100),
    Record(NOW + 70_000, b"k", None),
    Record(NOW, b"", b"", [Header("schlüssel", b"\xff")]),
    Record(NOW, b"large", b"l" * 9000),
]
pytestmark = pytest.mark.usefixtures("reading")


def fields(batch):
    records = batch.records
    columns = (records.timestamps, records.keys, records.values, records.headers)
    assert {len(records)} == set(map(len, columns))
    return list(zip(*columns, strict=True))


def expected(records):
    return [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("xerial", [True, False])
def test_batches_of_every_codec_are_read(codec, xerial):
    data = encode_batch(RECORDS, codec=codec, xerial=xerial)
    batch = read(data)
    assert batch.codec == codec
    assert fields(batch) == expected(RECORDS)
    assert type(batch.records.headers[0][0]) is Header
    assert fields(read(memoryview(data))) == expected(RECORDS)


@pytest.mark.parametrize(
    ("builder", "codec"),
    [
        *((AiokafkaBuilder, codec) for codec in CODECS),
        (KafkaPythonBuilder, "none"),
        (KafkaPythonBuilder, "gzip"),  # the others need more packages
    ],
)
def test_batches_of_other_writers_are_read(builder, codec):
    writer = builder(
        magic=2, compression_type=CODECS[codec], is_transactional=True,
        producer_id=7, producer_epoch=3, base_sequence=11, batch_size=1 << 20,
    )  # fmt: skip
    for i, r in enumerate(RECORDS):
        headers = [(h.key, h.value) for h in r.headers]
        assert writer.append(i, r.timestamp, r.key, r.value, headers)
    batch = read(bytes(writer.build()))
    assert fields(batch) == expected(RECORDS)
    assert batch.attributes & TRANSACTIONAL
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 11)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW, NOW + 70_000)


def test_records_are_read_in_place_and_unchanged():
    data = encode_batch(RECORDS)
    buffer = bytearray(data + b"\x01" * SLACK)
    batch = read(memoryview(buffer)[: len(data)])
    assert bytes(buffer) == data + b"\x01" * SLACK
    buffer[:] = bytes(len(buffer))
    assert fields(batch) == expected(RECORDS)


@pytest.mark.parametrize("size", [62, 63, 64, 65, 8180, 8181, 8182, 8190, 16_384, 1_048_576])
def test_records_with_lengths_of_every_size_are_read(size):
    records = [Record(NOW, None, b"x" * size), Record(NOW, b"k", b"x" * (size - 40))]
    assert fields(read(encode_batch(records), limit=1 << 22)) == expected(records)


V = values(b"secret")


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (b"", 87, "Produce requests with version 9 must have at least one record batch per partition"),
        (encode_batch(V)[:30], 87, "at least one record batch"),
        (encode_batch(V)[:-1], 87, "at least one record batch"),
        (encode_batch(V) * 2, 87, "exactly one record batch per partition"),
        (encode_batch(V) + b"\0", 87, "exactly one record batch per partition"),
        (encode_batch(V, magic=0), 87, "only allowed to contain record batches with magic version 2"),
        (encode_batch(V, magic=1), 87, "only allowed to contain record batches with magic version 2"),
        (encode_batch(V, magic=3), 2, "Invalid magic found in record: 3"),
        (encode_batch(V, magic=-1), 2, "Invalid magic found in record: -1"),
        (encode_batch(V, length=48), 2, "smaller than the minimum allowed overhead 61"),
        (encode_batch(V, length=14), 2, "smaller than the minimum allowed overhead 61"),
        (encode_batch(V, length=13), 2, "less than the minimum record overhead (14)"),
        (encode_batch(V, length=-1), 2, "Record size -1 is less than the minimum record overhead"),
        (encode_batch(V, length=-1, magic=0), 2, "less than the minimum record overhead (14)"),
        (encode_batch(V, length=-1)[:12], 2, "less than the minimum record overhead (14)"),
        (encode_batch(V, magic=1)[:60], 87, "at least one record batch"),
        (encode_batch(V, crc=5), 2, "Record is corrupt (stored crc = 5, computed crc = "),
        (encode_batch(V, base_offset=4), 87, "baseOffset of the record batch should be 0, but it is 4"),
        (encode_batch(V, attributes=5), 87, "Unknown compression type id: 5"),
        (encode_batch(V, attributes=6), 87, "Unknown compression type id: 6"),
        (encode_batch(V, attributes=7), 87, "Unknown compression type id: 7"),
        (encode_batch(V, last_offset_delta=-1), 87, "invalid offset range: [0, -1]"),
        (encode_batch(V, last_offset_delta=-1, count=0), 87, "invalid offset range"),
        (encode_batch(V, count=0), 87, "Invalid reported count for record batch: 0"),
        (encode_batch(V, count=-1), 87, "Invalid reported count for record batch: -1"),
        (encode_batch(V, count=2), 87, "Inconsistent batch offset range [0, 0] and count of records 2"),
        (encode_batch(V, last_offset_delta=1), 87, "Inconsistent batch offset range [0, 1]"),
        (encode_batch(V, last_offset_delta=1, count=2), 87, "premature EOF"),
        (encode_batch(V * 2, last_offset_delta=0, count=1), 87, "records still remaining"),
        (encode_batch(V, last_offset_delta=2**31 - 2, count=2**31 - 1), 87, "premature EOF"),
        (encode_batch(V, attributes=0x20), 87, "Clients are not allowed to write control records"),
        (encode_batch(V, producer_id=9), 87, "Invalid sequence number -1 in record batch with producerId 9"),
        (encode_batch(V, attributes=0x08), 32, "Invalid timestamp type"),
    ],
)  # fmt: skip
def test_invalid_batches_are_refused(data, code, text):
    got, message = refusal(data)
    assert got == code
    assert text in message
    assert "secret" not in message


def test_zstd_needs_version_7():
    data = encode_batch(V, codec="zstd")
    assert fields(read(data, api_version=7)) == expected(V)
    code, message = refusal(data, api_version=6)
    assert code == 76
    assert message == (
        "Produce requests with version 6 are not allowed to use ZStandard compression"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        b"",
        bytes(6),
        zigzag(-1) + bytes(10),
        zigzag(2**31) + bytes(10),
        b"\x80" * 12,
        record(b"\x80\x00\x00\x00\x01\x01\x00"),  # attributes of two bytes for a varint reader
        record(b"\xff\x00\x00\x01\x01\x00"),
        # The same, with a length of two and of three bytes.
        record(b"\x80\x00\x00\x00\x01" + zigzag(90) + b"x" * 90 + b"\x00"),
        record(b"\x80\x00\x00\x00\x01" + zigzag(9000) + b"x" * 9000 + b"\x00"),
        record(b"\x00\x00\x02\x01\x01\x00"),  # offset delta 1
        record(b"\x00\x00\x01\x01\x01\x00"),  # offset delta -1
        record(b"\x00\x00\x00\x01\x01\x01"),  # -1 headers
        record(b"\x00\x00\x00\x01\x01\x02"),  # one header, none there
        record(b"\x00\x00\x00\x01\x01\x02\x01\x01"),  # a header key of length -1
        record(b"\x00\x00\x00\x01\x01\x02\x02\xff\x01"),  # a header key that is not UTF-8
        record(b"\x00\x00\x00\x01\x01\x02\x06\xed\xa0\x80\x01"),  # half a surrogate pair
        record(b"\x00\x00\x00\x01\x01\x00\x00"),  # more in the record than its fields
        record(b"\x00\x00\x00\x01\x06ab\x00"),  # a value that reaches into what follows
        record(b"\x00\x00\x00\x01" + zigzag(2**31 - 1) + b"\x00"),
        record(b"\x00\x00\x00" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x01\x00"),  # 2**63 - 1
        record(b"\x00\x00\x00\x01" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00"),
        record(b"\x00\x00\x00\x01\x01" + b"\xfe" + b"\xff" * 8 + b"\x01"),
        record(b"\x00\x00\x00\x01\x01\x02" + b"\xfe" + b"\xff" * 8 + b"\x01"),
        record(b"\x00" + WIDE[:-1] + b"\x80\x01\x00\x01\x01\x00"),  # a varint of eleven bytes
        record(b"\x00\x00\x00\x01\x01\x00") + b"\x00",
        record(b"\x00\x00\x00\x01\x01\x00") * 2,
        record(b"\x00\x00\x00\x01\x01\x80"),  # the varint continues behind the batch
        record(b"\x00\x00\x00\x01\x01\x02\x00\x80"),
    ],
)
@pytest.mark.parametrize("codec", [0, 4])
def test_invalid_records_are_refused(body, codec):
    data = encode_batch(V, codec=codec, body=body)
    for slack in (bytes(SLACK), b"\x80" * SLACK, b"\x01" * SLACK):
        view = memoryview(data + slack)[: len(data)]
        with pytest.raises(UnreadableRecords) as refused:
            read(view)
        assert refused.value.code == 87


def test_many_headers_and_small_records_are_read():
    record_of_headers = record(b"\x00\x00\x00\x01\x01" + zigzag(5000) + b"\x00\x01" * 5000)
    batch = read(encode_batch(V, body=record_of_headers))
    assert batch.records.headers == ((Header("", None),) * 5000,)
    code, _ = refusal(encode_batch(V, body=record(b"\x00\x00\x00\x01\x01" + zigzag(2**31 - 1))))
    assert code == 87


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_several_gzip_members_and_zstd_frames_are_read(codec):
    body = encode_batch(RECORDS)[61:]
    frames = b"".join(compress(CODECS[codec], part) for part in (body[:10], body[10:]))
    data = encode_batch(RECORDS, codec=codec, payload=frames)
    assert fields(read(data)) == expected(RECORDS)


@pytest.mark.parametrize(("codec", "code"), [("gzip", 87), ("lz4", 2), ("zstd", 87)])
def test_bytes_after_the_first_frame_are_not_read(codec, code):
    frame = compress(CODECS[codec], encode_batch(V)[61:])
    assert refusal(encode_batch(V, codec=codec, payload=frame * 2))[0] == code
    assert refusal(encode_batch(V, codec=codec, payload=frame + b"rest"))[0] == 2


def test_a_limit_is_reached_but_not_passed():
    size = len(encode_batch(RECORDS)) - 61
    for codec in CODECS:
        data = encode_batch(RECORDS, codec=codec)
        assert fields(read(data, limit=size)) == expected(RECORDS)
        code, message = refusal(data, limit=size - 1)
        assert code == 87
        assert "decompressed.batch.max.bytes" in message


def test_threads_do_not_share_memory():
    batches = [values(*[bytes([i]) * 500] * 200) for i in range(8)]
    data = [encode_batch(records, codec="lz4") for records in batches]

    def check(i):
        return all(fields(read(data[i])) == expected(batches[i]) for _ in range(20))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, range(8)))


def test_the_oracle_reads_the_same_records():
    for codec in CODECS:
        data = encode_batch(RECORDS, codec=codec)
        assert oracle.read(data) == [
            (t, k, v, [(name.encode(), x) for name, x in headers])
            for t, k, v, headers in fields(read(data))
        ]
    assert struct.unpack_from(">i", encode_batch(RECORDS), 57) == (5,)


def test_more_records_than_allowed_are_refused_before_they_are_decompressed(monkeypatch):
    data = encode_batch(RECORDS, codec="zstd")
    assert len(read(data, max_records=5).records) == 5
    monkeypatch.setattr("penstock.kafka.records.uncompressed.decompress", None)
    with pytest.raises(UnreadableRecords, match="5 records, more than 4") as refused:
        read(data, max_records=4)
    assert refused.value.code == 87
    assert "decompressed.batch.max.records" in refused.value.message
