"""Damaged records raise a single exception, or are read as by Kafka's classes."""

import random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.policy import Header, Record
from penstock.records import decoder
from penstock.records.batch import read_batch
from penstock.records.errors import UnreadableRecords
from penstock.records.implementation import SLACK
from tests.records import oracle
from tests.records.encoding import encode_batch

NOW = 1_700_000_000_000
LIMIT = 1 << 20
pytestmark = pytest.mark.usefixtures("reading")
RECORDS = [
    Record(NOW, b"key", b'{"a": 1}', [Header("name", b"x"), Header("none", None)]),
    Record(NOW + 1, None, b"v" * 80),
    Record(NOW - 9, b"k", None, [Header("h", b"")]),
]
BODY = encode_batch(RECORDS)[61:]
# Numbers that change what a length, a flag or a varint means.
STRIKING = b"\x00\x01\x02\x03\x7e\x7f\x80\x81\xfe\xff"


def agrees(data: bytes) -> bool:
    """Return whether it was accepted; the oracle must then read the same records."""
    try:
        batch = read_batch(data, api_version=9, max_decompressed_bytes=LIMIT)
    except UnreadableRecords as error:
        assert error.code in {2, 32, 87}
        return False
    assert oracle.read(data) == [
        (timestamp, key, value, [(name.encode(), field) for name, field in headers])
        for timestamp, key, value, headers in zip(
            batch.records.timestamps,
            batch.records.keys,
            batch.records.values,
            batch.records.headers,
            strict=True,
        )
    ]
    return True


def mutated(chance: random.Random, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(result))
        kind = chance.randrange(4)
        if kind == 0:
            result[at] = chance.choice(STRIKING)
        elif kind == 1:
            result[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            result[at : at + chance.randrange(3)] = chance.choices(STRIKING, k=chance.randrange(3))
        else:
            result[at:at] = b"\x80" * chance.randrange(1, 11)
        if not result:
            return b""
    return bytes(result)


@pytest.mark.thorough
def test_random_mutations_of_records():
    chance = random.Random(20)
    accepted = sum(agrees(encode_batch(RECORDS, body=mutated(chance, BODY))) for _ in range(20_000))
    assert 500 < accepted < 15_000


@pytest.mark.thorough
def test_random_mutations_of_compressed_records():
    chance = random.Random(21)
    payloads = {
        1: bytes(cramjam.gzip.compress(BODY * 3)),
        2: encode_batch(RECORDS, codec=2, body=BODY)[61:],
        3: bytes(cramjam.lz4.compress(BODY)),
        4: bytes(cramjam.zstd.compress(BODY)),
    }
    for codec, payload in payloads.items():
        for _ in range(1000):
            agrees(encode_batch(RECORDS, codec=codec, payload=mutated(chance, payload)))


def test_random_mutations_of_the_whole():
    chance = random.Random(22)
    for codec in range(5):
        data = encode_batch(RECORDS, codec=codec)
        for _ in range(500):
            agrees(mutated(chance, data))


NUMBERS = st.one_of(
    st.integers(-3, 200),
    st.sampled_from([2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**33, 2**63 - 1, -(2**31), -(2**63)]),
)


@st.composite
def varints(draw) -> bytes:
    """A varint, at times longer than it must be, at times cut off."""
    number = draw(NUMBERS)
    value = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3, 5, 9, 10]))):
        result[-1] |= 0x80
        result.append(0)
    return bytes(result[: draw(st.sampled_from([len(result)] * 9 + [1]))])


@pytest.mark.thorough
@settings(max_examples=400)
@given(
    st.lists(st.one_of(varints(), st.binary(max_size=6)), min_size=1, max_size=20), st.booleans()
)
def test_unusual_varints_are_read_as_by_the_oracle(parts, sized):
    body = b"".join(parts)
    if sized:
        body = encode_length(body)
    agrees(encode_batch(RECORDS[:1], body=body))


def encode_length(body: bytes) -> bytes:
    value, result = len(body) << 1, bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(result) + bytes([value]) + body


RECORD = st.builds(
    Record,
    st.integers(-1, 2**62),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=300),
    st.lists(st.builds(Header, st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4),
)


def test_a_memory_error_is_not_an_error_of_the_records(monkeypatch):
    def fail():
        raise MemoryError

    monkeypatch.setattr(decoder, "DefaultRecordBatch", lambda view: iter(fail, None))
    data = encode_batch(RECORDS) + bytes(SLACK)
    view = memoryview(data)[:-SLACK]
    with pytest.raises(MemoryError):
        next(decoder.DefaultRecordBatch(view))
    with pytest.raises(MemoryError):
        decoder.read(view, 3)
    # As for a length that lies.
    with pytest.raises(UnreadableRecords):
        decoder.read(view[:-1], 3)


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(RECORD, min_size=1, max_size=20), st.integers(0, 4))
def test_random_written_batches_are_read(records, codec):
    assert agrees(encode_batch(records, codec=codec))
