"""Batches that Kafka's own classes store and compact: read as its consumer reads them."""

import struct

import pytest
from crc32c import crc32c

from penstock.kafka.records.header import HEADER
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Record
from tests.kafka.records.encoding import CODECS, encode_stored
from tests.kafka.records.java_corpus import corpus, line
from tests.kafka.records.java_log import BASE, compactable, java
from tests.kafka.records.odd_headers import odd_headers

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("reading")]
NOW = 1_700_000_000_000
LIMIT = 1 << 24
HORIZON = 1_800_000_060_000
"""Of tombstones that `JavaLog` keeps."""
ODD = (b"\xffa", b"fine", b"a\xc3", b"\xe4\xbd", b"\xf0\x9f\x98")


@pytest.fixture(scope="module")
def stored():
    """Return stored batches, and the records that a consumer reads of each."""
    lines = []
    for codec in CODECS:
        for records in corpus():
            for kind in ("CreateTime", "LogAppendTime"):
                words = line(codec, list(compactable(records))).split(" ")[1:]
                lines += (
                    " ".join([what, codec, kind, str(BASE), *words])
                    for what in ("store", "compact")
                )
        gone = line(codec, [Record(NOW, b"d", b"v")] * 3).split(" ")[1:]
        lines.append(" ".join(["compact", codec, "CreateTime", "7", *gone]))
    batches = list(map(bytes.fromhex, java(lines)))
    body = odd_headers(*ODD)
    batches.append(encode_stored([Record(NOW, b"k", b"v")], body=body, base_offset=3))
    read = java(f"read {batch.hex()}" for batch in batches)
    return list(zip(batches, read, strict=True))


def text(data):
    return "-" if data is None else "x" + data.hex()


def rows(batch):
    """The records as `JavaLog` prints them."""
    records = batch.records
    columns = (
        batch.offsets, records.timestamps, records.keys, records.values, records.headers,
    )  # fmt: skip
    return " ".join(
        ",".join(
            [str(offset), str(timestamp), text(key), text(value)]
            + [text(part) for name, field in headers for part in (name.encode(), field)]
        )
        for offset, timestamp, key, value, headers in zip(*columns, strict=True)
    )


def test_stored_batches_are_read_as_by_a_consumer(stored):
    kinds = set()
    for data, read in stored:
        batch = read_stored_batch(data, max_decompressed_bytes=LIMIT)
        assert rows(batch) == read
        assert not read or read.startswith(f"{batch.base_offset},")
        horizon = batch.attributes & 0x40 and batch.base_timestamp == HORIZON
        gaps = not isinstance(batch.offsets, range)
        kinds.add((bool(horizon), batch.is_log_append_time, gaps, len(batch.records) == 0))
    assert kinds == {
        (False, False, False, False),
        (False, True, False, False),
        (True, False, False, False),
        (True, True, False, False),
        (True, False, True, False),
        (True, True, True, False),
        (False, False, False, True),
    }


def test_a_consumer_reads_batches_made_of_stored_batches(stored):
    written, expected = [], []
    for data, _ in stored:
        batch = read_stored_batch(data, max_decompressed_bytes=LIMIT)
        size = len(batch.records)
        if batch.is_whole:
            written.append(b"".join(batch.whole()))
            expected.append(rows(as_sent(batch)))
        if size:
            kept = range(0, size, 2)
            written.append(batch.cut(kept))
            expected.append(rows(read_stored_batch(written[-1], max_decompressed_bytes=LIMIT)))
            values = [batch.records.values[at] for at in kept]
            assert len(expected[-1].split(" ")) == len(values)
    assert java(f"read {item.hex()}" for item in written) == expected


def as_sent(batch):
    """A stored batch at offset 0 and with the timestamps of its producer."""
    data = bytearray(batch.data)
    struct.pack_into(">q", data, 0, 0)
    data[22] &= 0x07
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    assert len(data) > HEADER.size
    return read_stored_batch(bytes(data), max_decompressed_bytes=LIMIT)
