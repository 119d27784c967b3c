"""The batches of a broker's log that read_stored_batch reads, and batches made of them."""

import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.columns import as_proxies
from penstock.engine.stored_columns import StoredColumns
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import HEADER, TRANSACTIONAL, as_produced, read_producer
from penstock.kafka.records.stored_batch import StoredBatch, read_stored_batch
from penstock.policy import Header, Record, RecordIntrospectionHints
from tests.kafka.records.encoding import CODECS, NOW, RECORDS, encode_batch, encode_stored
from tests.kafka.records.in_python.single_record import HEADERS_MAX
from tests.kafka.records.odd_headers import odd_headers
from tests.kafka.records.sections import RECORD
from tests.kafka.records.wide import WIDE, record

GAPS = (0, 3, 4, 90)
LIMIT = 1 << 20
CLIENT = NOW + 1
pytestmark = pytest.mark.usefixtures("reading")


def read(data, limit=LIMIT, **options) -> StoredBatch:
    return read_stored_batch(data, max_decompressed_bytes=limit, **options)


def rows(batch):
    columns = batch.records
    return list(zip(columns.timestamps, columns.keys, columns.values, columns.headers, strict=True))


def expected(records):
    return [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


def sent(data):
    """Return the batch that a broker would accept from a producer."""
    batch = read_batch(data, api_version=9, max_decompressed_bytes=LIMIT)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.attributes == batch.attributes & 7
    assert struct.unpack_from(">q", data)[0] == 0
    assert struct.unpack_from(">i", data, 12)[0] == -1
    return batch


def with_checksum(data):
    data = bytearray(data)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def refusal(data, limit=LIMIT, **options):
    with pytest.raises(UnreadableRecords) as refused:
        read(data, limit, **options)
    assert "secret" not in refused.value.message
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("codec", range(5))
def test_stored_batches_of_every_codec_are_read(codec):
    data = encode_stored(
        RECORDS, base_offset=2**40, attributes=codec | 0x10,
        producer_id=7, producer_epoch=3, base_sequence=11,
    )  # fmt: skip
    batch = read(memoryview(data))
    assert rows(batch) == expected(RECORDS)
    assert batch.offsets == range(2**40, 2**40 + 4)
    assert (batch.base_offset, batch.last_offset) == (2**40, 2**40 + 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 11)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW, NOW + 70_000)
    assert batch.codec == list(CODECS)[codec]
    assert batch.attributes & TRANSACTIONAL
    assert not (batch.is_control or batch.is_log_append_time)
    assert batch.data == data


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(
    ("deltas", "last", "offsets"),
    [
        (GAPS, 90, (50, 53, 54, 140)),
        (GAPS, 200, (50, 53, 54, 140)),
        ((0, 1, 2, 3), 7, range(50, 54)),
        ((6, 7, 8, 9), 9, range(56, 60)),
        ((0, 1, 2, 2**31 - 1), 2**31 - 1, (50, 51, 52, 2**31 + 49)),
    ],
)
def test_gaps_of_compaction_are_read(codec, deltas, last, offsets):
    data = encode_stored(RECORDS, deltas, base_offset=50, attributes=codec, last_offset_delta=last)
    batch = read(data)
    assert batch.offsets == offsets
    assert batch.last_offset == 50 + last
    assert rows(batch) == expected(RECORDS)
    assert not batch.is_whole
    with pytest.raises(ValueError, match="gaps"):
        batch.whole()
    whole = sent(batch.cut(range(4)))
    assert rows(whole) == expected(RECORDS)


@pytest.mark.parametrize("attributes", [0, 4, 0x08, 0x50])
@pytest.mark.parametrize("rest", [b"", b"\x00", b"any"])
def test_a_batch_without_records(attributes, rest):
    data = encode_stored([], attributes=attributes, base_offset=9, last_offset_delta=4, body=rest)
    batch = read(data)
    assert (len(batch.records), list(batch.offsets), rows(batch)) == (0, [], [])
    assert batch.last_offset == 13
    assert not batch.is_whole
    assert list(batch.between(9, 12).offsets) == []
    with pytest.raises(ValueError, match="no record"):
        batch.cut([])


@pytest.mark.parametrize("codec", [0, 3])
def test_with_log_append_time_all_timestamps_are_the_largest(codec):
    data = encode_stored(RECORDS, attributes=codec | 0x08, max_timestamp=CLIENT)
    batch = read(data)
    assert batch.is_log_append_time
    assert list(batch.records.timestamps) == [CLIENT] * 4
    assert list(batch.between(1, 3).records.timestamps) == [CLIENT] * 2
    # Who writes it again sends what the producer sent.
    assert rows(sent(batch.cut([1, 2]))) == expected(RECORDS[1:3])
    assert sent(batch.cut([0, 1])).max_timestamp == NOW
    assert rows(sent(b"".join(batch.whole()))) == expected(RECORDS)


def test_timestamps_are_relative_to_a_delete_horizon():
    data = encode_stored(RECORDS, GAPS, attributes=0x40, base_timestamp=NOW + 10**9)
    batch = read(data)
    assert rows(batch) == expected(RECORDS)
    assert rows(sent(batch.cut([0, 3]))) == expected([RECORDS[0], RECORDS[3]])
    whole = read(encode_stored(RECORDS, attributes=0x40, base_timestamp=NOW + 10**9)).whole()
    assert rows(sent(b"".join(whole))) == expected(RECORDS)


@pytest.mark.parametrize("unit", [1000, 10**6])
def test_timestamps_in_other_units(unit):
    records = [record._replace(timestamp=record.timestamp * unit) for record in RECORDS]
    batch = read(encode_stored(records, GAPS))
    assert rows(batch) == expected(records)
    assert rows(sent(batch.cut([1, 2]))) == expected(records[1:3])


@pytest.mark.parametrize("base", [-1, 0, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("delta", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_timestamps_of_64_bits(base, delta):
    body = record(b"\x00" + zigzag64(delta) + b"\x00\x01\x01\x00")
    batch = read(encode_stored(RECORDS[:1], base_timestamp=base, body=body))
    wanted = (base + delta + 2**63) % 2**64 - 2**63
    assert list(batch.records.timestamps) == [wanted]
    again = read(batch.cut([0], replaced=([b"k"], [b"v"])))
    assert rows(again) == [(wanted, b"k", b"v", ())]


def zigzag64(number):
    raw = (number << 1 ^ number >> 63) & (2**64 - 1)
    written = bytearray()
    while raw > 0x7F:
        written.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*written, raw])


def test_a_control_batch_is_read_and_never_written():
    marker = Record(NOW, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00")
    batch = read(encode_stored([marker], attributes=0x30, producer_id=7))
    assert batch.is_control
    assert batch.attributes & TRANSACTIONAL
    assert rows(batch) == expected([marker])
    with pytest.raises(ValueError, match="control"):
        batch.whole()
    with pytest.raises(ValueError, match="control"):
        batch.cut([0])


def test_header_keys_that_are_not_utf_8():
    keys = (b"\xffa", b"fine", b"a\xc3", b"__dlq.\xff", b"\xe4\xbd")
    second = encode_stored(RECORDS[:1], [1])[HEADER.size :]
    batch = read(encode_stored(RECORDS[:2], body=odd_headers(*keys) + second))
    wanted = tuple(
        Header(key, b"x") for key in ("\ufffda", "fine", "a\ufffd", "__dlq.\ufffd", "\ufffd")
    )
    assert rows(batch) == [(NOW, b"k", b"v", wanted), *expected(RECORDS[:1])]
    assert batch.between(0, 1).records.headers == (wanted,)
    # Who writes it again writes the same bytes.
    cut = batch.cut([0], appended=[[("ä", b"1"), ("none", None)]], without=["__dlq.", "none"])
    assert rows(read(cut))[0][3][-2:] == (Header("ä", b"1"), Header("none", None))
    assert odd_headers(*(key for key in keys if not key.startswith(b"__dlq.")))[14:] in cut
    assert cut[HEADER.size :].count(b"\xff") == 1
    assert batch.cut([0])[HEADER.size :] == odd_headers(*keys)
    assert batch.cut([1])[HEADER.size :] == encode_batch(RECORDS[:1])[HEADER.size :]
    with pytest.raises(UnreadableRecords, match="header key that is not UTF-8"):
        read_batch(batch.cut([0]), api_version=9, max_decompressed_bytes=LIMIT)


def test_very_many_headers_with_odd_keys():
    keys = [b"\xff"] * (HEADERS_MAX + 2)
    batch = read(encode_stored(RECORDS[:1], body=odd_headers(*keys)))
    assert batch.records.headers == ((Header("\ufffd", b"x"),) * len(keys),)


V = [Record(NOW, b"k", b"secret")]
DESCEND = "offset deltas do not ascend to the last one of the batch (record 1 of the batch)"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "0 bytes are not a record batch"),
        (encode_stored(V)[:16], "16 bytes are not a record batch"),
        (encode_stored(V)[:60], "its size is 75, and 60 bytes are there; the minimum is 61"),
        (encode_stored(V)[:-1], "its size is 75, and 74 bytes are there"),
        (encode_stored(V) + b"\0", "its size is 75, and 76 bytes are there"),
        (encode_stored(V, length=-13), "its size is -1, and 75"),
        (encode_stored(V, length=14)[:26], "its size is 26, and 26 bytes"),
        (encode_stored(V, magic=1), "A batch of magic 1, not of 2"),
        (encode_stored(V, magic=-1), "A batch of magic -1, not of 2"),
        (encode_stored(V, crc=5), "Record is corrupt (stored crc = 5, computed crc = "),
        (encode_stored(V, attributes=5), "Unknown compression type id: 5"),
        (encode_stored(V, base_offset=-1), "invalid offset range: [-1, -1]"),
        (encode_stored(V, last_offset_delta=-1), "invalid offset range: [0, -1]"),
        (encode_stored(V, base_offset=2**63 - 1), f"[{2**63 - 1}, {2**63 - 1}]"),
        (encode_stored(V, count=-1), "Found invalid record count -1 in magic v2 batch"),
        (encode_stored(V, count=2, last_offset_delta=1), "premature EOF reached (record 1 of"),
        (encode_stored(V, count=2**31 - 1, last_offset_delta=2**31 - 1), "premature EOF"),
        (encode_stored(V * 2, count=1), "records still remaining in file"),
        (encode_stored(V * 2, (0, 0)), DESCEND),
        (encode_stored(V * 2, (1, 0)), DESCEND),
        (encode_stored(V * 2, (0, 2), last_offset_delta=1), DESCEND),
        (encode_stored(V * 2, (0, -1)), DESCEND),
        (encode_stored(V, (-1,)), "invalid offset range"),
        (encode_stored(V * 2, (-1, 0)), DESCEND.replace("1 of", "0 of")),
        (encode_stored(V, body=record(b"\x80\x00\x00\x00\x01\x01\x00")), "attributes (record 0"),
        (encode_stored(V, body=record(b"\x00" + WIDE[:-1] + b"\x80\x00\x01\x01\x00")), "timestamp"),
        (encode_stored(V, body=record(b"\x00\x00\x00\x01\x01\x01")), "record headers -1 (record 0"),
    ],
)  # fmt: skip
def test_unreadable_batches_are_an_error(data, text):
    code, message = refusal(data)
    assert code == 2
    assert text in message


def test_damaged_compression_is_an_error():
    data = bytearray(encode_stored(V, attributes=3))
    data[70] ^= 0xFF
    assert refusal(with_checksum(data)) == (2, "The records cannot be decompressed with lz4")


def is_read(data) -> bool:
    """Return whether it can be read, and then written again; otherwise the error is the expected error."""
    try:
        batch = read(data)
    except UnreadableRecords as error:
        assert error.code in {2, 87}
        assert error.message
        return False
    size = len(batch.records)
    assert len(batch.offsets) == size == len(rows(batch))
    if size and not batch.is_control:
        again = read(batch.cut(range(size)))
        assert [row[1:] for row in rows(again)] == [row[1:] for row in rows(batch)]
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("codec", range(5))
def test_any_flipped_bit_with_a_right_checksum_is_read_or_an_error(codec):
    data = encode_stored(RECORDS, GAPS, base_offset=70, attributes=codec | 0x10)
    count = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert is_read(flipped) is False or bit // 8 < 17
        count += is_read(with_checksum(flipped))
    # Of producer, timestamps and attributes at least.
    assert count > 8 * (8 + 8 + 14)


@pytest.mark.parametrize("codec", range(5))
def test_truncation_at_every_byte_with_a_right_checksum_is_an_error(codec):
    data = encode_stored(RECORDS, GAPS, attributes=codec)
    for size in range(len(data)):
        assert not is_read(data[:size])
        if size >= HEADER.size:
            cut_off = bytearray(data[:size])
            struct.pack_into(">i", cut_off, 8, size - 12)
            assert not is_read(with_checksum(cut_off))


def test_a_batch_that_is_too_large_is_not_corrupt():
    for codec in range(5):
        data = encode_stored(RECORDS, attributes=codec)
        size = len(encode_stored(RECORDS)) - HEADER.size
        assert len(read(data, size, max_records=4).records) == 4
        code, message = refusal(data, size - 1)
        assert (code, "decompressed.batch.max.bytes" in message) == (87, True)
        code, message = refusal(data, max_records=3)
        assert (code, "decompressed.batch.max.records" in message) == (87, True)


def test_the_records_outlive_the_memory_of_the_response():
    data = bytearray(encode_stored(RECORDS, attributes=4))
    batch = read(memoryview(data))
    data[:] = bytes(len(data))
    assert rows(batch) == expected(RECORDS)


@pytest.mark.parametrize("deltas", [(0, 1, 2, 3), GAPS, (2, 3, 4, 5), (0, 1, 5, 6)])
def test_a_part_of_a_batch_has_the_records_of_its_offsets(deltas):
    data = encode_stored(RECORDS, deltas, base_offset=100, last_offset_delta=95)
    batch = read(data)
    for first in range(98, 198):
        for end in {first - 2, first, first + 1, first + 3, first + 50, 300}:
            part = batch.between(first, end)
            at = [i for i, delta in enumerate(deltas) if first <= 100 + delta < end]
            assert list(part.offsets) == [100 + deltas[i] for i in at]
            assert isinstance(part.offsets, range) == (
                not at or deltas[at[-1]] - deltas[at[0]] == at[-1] - at[0]
            )
            assert rows(part) == expected([RECORDS[i] for i in at])
            assert (part is batch) == (len(at) == 4)
            assert not part.is_whole
            if at:
                assert rows(sent(part.cut(range(len(at))))) == expected([RECORDS[i] for i in at])


def test_a_part_of_a_part_has_the_records_of_its_offsets():
    batch = read(encode_stored(RECORDS, GAPS, base_offset=100))
    part = batch.between(103, 200).between(0, 105)
    assert list(part.offsets) == [103, 104]
    assert rows(sent(part.cut([1]))) == expected(RECORDS[2:3])
    whole = read(encode_stored(RECORDS, base_offset=100))
    assert whole.is_whole
    assert not whole.between(101, 200).is_whole
    with pytest.raises(ValueError, match="a part"):
        whole.between(101, 200).whole()


@pytest.mark.parametrize("codec", CODECS)
def test_a_whole_batch_keeps_the_bytes_of_its_records(codec):
    data = encode_stored(
        RECORDS, base_offset=70, attributes=CODECS[codec] | 0x58, producer_id=5,
        producer_epoch=1, base_sequence=8,
    )  # fmt: skip
    head, records = read(data).whole()
    assert records == data[HEADER.size :]
    batch = sent(head + bytes(records))
    assert batch.codec == codec
    assert rows(batch) == expected(RECORDS)


def test_a_batch_is_written_with_another_producer():
    batch = read(encode_stored(RECORDS, GAPS, producer_id=5, producer_epoch=1, base_sequence=8))
    for data in (batch.data, batch.cut([0, 2])):
        head, records = as_produced(
            data, producer_id=9, epoch=2, base_sequence=77, transactional=True
        )
        producer = read_producer(head + bytes(records))
        assert producer[:3] == (9, 2, 77)
        assert producer.transactional


ADDED = [("__dlq.errors.topic", b"t"), ("text ü", None)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("deltas", [range(4), GAPS])
def test_a_batch_without_some_records_is_written(codec, deltas):
    batch = read(encode_stored(RECORDS, deltas, base_offset=70, attributes=CODECS[codec] | 0x10))
    for kept in ([0], [3], [1, 3], [0, 1, 2, 3]):
        wanted = [RECORDS[at] for at in kept]
        cut = sent(batch.cut(kept))
        assert rows(cut) == expected(wanted)
        assert cut.codec == codec
        assert cut.max_timestamp == max(record.timestamp for record in wanted)


def test_a_batch_with_other_keys_and_values_is_written():
    batch = read(encode_stored(RECORDS, GAPS))
    keys = [b"new", *batch.records.keys[1:]]
    values = [*batch.records.values[:3], None]
    wanted = [
        RECORDS[0]._replace(key=b"new"), RECORDS[1], RECORDS[3]._replace(value=None),
    ]  # fmt: skip
    assert rows(sent(batch.cut([0, 1, 3], replaced=(keys, values)))) == expected(wanted)
    assert rows(sent(batch.cut([1], replaced=(keys, values)))) == expected(RECORDS[1:2])
    # As for dropped records: keys and values of records that are not kept are not read.
    keys[2] = values[2] = None
    assert rows(sent(batch.cut([0, 1, 3], replaced=(tuple(keys), values)))) == expected(wanted)


def test_dead_letters_are_written():
    batch = read(encode_stored(RECORDS, GAPS, attributes=3))
    more = [[*ADDED, ("offset", b"%d" % offset)] for offset in (0, 4, 90)]
    letters = sent(batch.cut([0, 2, 3], appended=more, timestamp=CLIENT))
    assert rows(letters) == [
        (
            CLIENT,
            RECORDS[at].key,
            RECORDS[at].value,
            (*RECORDS[at].headers, *map(Header._make, added)),
        )
        for at, added in zip((0, 2, 3), more, strict=True)
    ]
    assert (letters.base_timestamp, letters.max_timestamp) == (CLIENT, CLIENT)
    # And back: redriven, once more dead.
    stored = read(batch.cut([0, 2, 3], appended=more, timestamp=CLIENT))
    again = sent(stored.cut([0, 2], without=["__dlq.", "text", "off"]))
    assert rows(again) == expected(RECORDS[at]._replace(timestamp=CLIENT) for at in (0, 3))
    once = sent(stored.cut([1], without=["__dlq.", "off", "text"], appended=[[("n", b"2")]]))
    assert once.records.headers == ((Header("n", b"2"),),)


def test_headers_that_stay_keep_their_bytes():
    # Lengths that take more bytes than they need, and a batch that is not renumbered.
    odd = b"\x82\x00a\x82\x00x" + b"\x02b\x01"
    data = encode_stored(V, body=record(b"\x00\x00\x00\x02k\x02v\x04" + odd))
    assert rows(read(data))[0][3] == (Header("a", b"x"), Header("b", None))
    cut = read(read(data).cut([0], without=["b"]))
    assert rows(cut)[0][3] == (Header("a", b"x"),)
    assert read(data).cut([0], without=["c"]) == read(data).cut([0])


@pytest.mark.parametrize(
    ("kept", "options"),
    [
        ([4], {}),
        ([0, 9], {}),
        ([], {}),
        ([0], {"appended": []}),
        ([0], {"appended": [[], []]}),
        ([0], {"appended": [[("a",)]]}),
        ([0], {"appended": [[(b"a", b"")]]}),
        ([0], {"appended": [[("a", "text")]]}),
        ([0], {"appended": [[("\ud800", b"")]]}),
        ([3], {"replaced": ([b"k"] * 3, [b"v"] * 4)}),
        ([0], {"replaced": (["k"] * 4, [b"v"] * 4)}),
    ],
)
def test_wrong_calls_are_an_error(kept, options):
    with pytest.raises((ValueError, TypeError, IndexError)):
        read(encode_stored(RECORDS)).cut(kept, **options)


def test_a_stored_batch_is_judged_unchanged():
    batch = read(encode_stored(RECORDS, GAPS, base_offset=5))
    columns = StoredColumns(batch.between(8, 1000).records)
    proxies = list(as_proxies(columns, RecordIntrospectionHints()))
    assert [(p.key, p.value, p.headers) for p in proxies] == [
        (r.key, r.value, tuple(r.headers)) for r in RECORDS[1:]
    ]
    assert list(columns.pick([1]).timestamps) == [RECORDS[2].timestamp]
    arrow = columns.values.arrow
    assert arrow is None or arrow.to_pylist() == [r.value for r in RECORDS[1:]]


@pytest.mark.thorough
@settings(max_examples=80)
@given(st.lists(RECORD, min_size=1, max_size=12), st.integers(0, 4), st.data())
def test_random_stored_batches_are_read_and_split(records, codec, data):
    steps = data.draw(st.lists(st.integers(1, 3), min_size=len(records), max_size=len(records)))
    deltas = [sum(steps[: at + 1]) - 1 for at in range(len(records))]
    base = data.draw(st.integers(0, 2**62))
    stored = encode_stored(records, deltas, base_offset=base, attributes=codec)
    batch = read(stored, 1 << 24)
    assert list(batch.offsets) == [base + delta for delta in deltas]
    assert rows(batch) == expected(records)
    kept = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    headers = st.lists(
        st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3
    )
    more = [data.draw(headers) for _ in kept]
    cut = sent(batch.cut(kept, appended=more))
    assert rows(cut) == [
        (r.timestamp, r.key, r.value, (*r.headers, *map(Header._make, added)))
        for r, added in zip((records[at] for at in kept), more, strict=True)
    ]
