"""Batches that Kafka's own classes write: read, and written again to the same bytes."""

import subprocess
from pathlib import Path

import pytest

from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.compression import Scratch, decompress
from penstock.kafka.records.encoder import rebuild
from penstock.kafka.records.header import CRC_FROM, HEADER
from tests.java import program
from tests.kafka.records.encoding import CODECS
from tests.kafka.records.java_corpus import corpus, line

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("reading")]
LIMIT = 1 << 24


@pytest.fixture(scope="module")
def written():
    """The codec, the records and the bytes of each batch."""
    cases = [(codec, records) for codec in CODECS for records in corpus()]
    done = subprocess.run(
        program(Path(__file__).with_name("JavaBatches.java")),
        input="".join(f"{line(*case)}\n" for case in cases),
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    batches = map(bytes.fromhex, done.stdout.split())
    return [(*case, batch) for case, batch in zip(cases, batches, strict=True)]


def section(batch):
    """The records of a batch, uncompressed."""
    codec = batch[22] & 7
    if not codec:
        return batch[HEADER.size :]
    scratch = Scratch(ahead=0)
    size = decompress(codec, memoryview(batch)[HEADER.size :], LIMIT, scratch)
    return bytes(scratch.buffer[:size])


def test_batches_of_kafkas_classes_are_read(written):
    for codec, records, batch in written:
        read = read_batch(batch, api_version=9, max_decompressed_bytes=LIMIT)
        columns = read.records
        assert read.codec == codec
        assert columns.keys == tuple(record.key for record in records)
        assert columns.values == tuple(record.value for record in records)
        assert columns.headers == tuple(record.headers for record in records)
        assert columns.timestamps == tuple(record.timestamp for record in records)


def test_rewritten_batches_of_kafkas_classes_are_the_same(written):
    for codec, records, batch in written:
        read = read_batch(batch, api_version=9, max_decompressed_bytes=LIMIT)
        # Other objects than those that were read, so that each record is looked at.
        keys = [record.key for record in records]
        values = [record.value for record in records]
        again = rebuild(read, range(len(records)), keys, values)
        assert section(again) == section(batch), codec
        assert again[CRC_FROM : HEADER.size] == batch[CRC_FROM : HEADER.size]
        if codec == "none":
            assert again[:12] + again[16:] == batch[:12] + batch[16:], "all but the leader's epoch"
