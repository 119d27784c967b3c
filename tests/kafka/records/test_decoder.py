"""Damaged records raise a single exception, or are read as by Kafka's classes."""

import random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.errors import UnreadableRecords
from tests.kafka.records import oracle
from tests.kafka.records.encoding import encode_batch
from tests.kafka.records.implementations import SLACK
from tests.kafka.records.in_python import decoder
from tests.kafka.records.sections import BODY, RECORD, RECORDS, encode_length, mutated, varints

LIMIT = 1 << 20
pytestmark = pytest.mark.usefixtures("reading")


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
