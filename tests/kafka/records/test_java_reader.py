"""Batches that are accepted, or written again: Kafka's consumer reads them, and its broker stores them.

Bounded in `make test`; `make fuzz` for more. `test_lz4_frames.py` has cases that need no Java.
"""

import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from penstock.gateway.produce.dead_letters.batches import join_letters
from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.encoder import rebuild, rebuild_with_headers
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import HEADER
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Record
from tests.java import program
from tests.kafka.records.encoding import NOW, encode_batch
from tests.kafka.records.framings import gzip_member, snappy_block, xerial
from tests.kafka.records.hostile_batches import hostile_batch
from tests.kafka.records.implementations import IMPLEMENTATIONS, use

pytestmark = pytest.mark.system
LIMIT = 1 << 24
AT_ONCE = 3_000


def in_java(batches):
    """What a consumer reads of each batch, and what a broker answers."""
    done = subprocess.run(
        program(Path(__file__).with_name("JavaReader.java")),
        input=b"".join(struct.pack(">i", len(batch)) + batch for batch in batches),
        capture_output=True, timeout=300, check=True,
    )  # fmt: skip
    lines = done.stdout.decode().splitlines()
    assert len(lines) == len(batches)
    return [tuple(line.split(" ")) for line in lines]


def _field(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def summary(records, offsets=None):
    """The number and the checksum of records, as `JavaReader` prints them."""
    offsets = range(len(records)) if offsets is None else offsets
    columns = (records.timestamps, records.keys, records.values, records.headers)
    checksum = 0
    for offset, timestamp, key, value, headers in zip(offsets, *columns, strict=True):
        fields = [field for header in headers for field in (header.key.encode(), header.value)]
        data = struct.pack(">qq", offset, timestamp) + _field(key) + _field(value)
        data += struct.pack(">i", len(headers)) + b"".join(map(_field, fields))
        checksum = zlib.crc32(data, checksum)
    return f"{len(records)}:{checksum:08x}"


def accepted(batch):
    """The batch of a producer; None if it is refused."""
    try:
        return read_batch(batch, api_version=9, max_decompressed_bytes=LIMIT)
    except UnreadableRecords as refused:
        assert refused.code in {2, 32, 76, 87}
        return None


def stored(batch):
    """The stored batch; None if it is unreadable."""
    try:
        return read_stored_batch(batch, max_decompressed_bytes=LIMIT)
    except UnreadableRecords:
        return None


def written_again(batch, chance):
    """Batches that interceptors, modes and jobs write of a batch."""
    read, kept = accepted(batch), stored(batch)
    count = len(read.records)
    some = sorted(chance.sample(range(count), chance.randrange(1, count + 1)))
    fields = [[b"k" * (at % 3), None][at % 2] for at in some]
    letters = kept.cut(some, appended=[[("__dlq.id", b"1")]] * len(some))
    return [
        rebuild(read, some, fields, fields[::-1]),
        rebuild_with_headers(read, some, [[("why", b"x"), ("a", None)]] * len(some), without=("a",)),
        kept.cut(some, timestamp=chance.choice((None, 0, 1_700_000_000_000))),
        letters,
        join_letters([letters, letters]),
    ]  # fmt: skip


@pytest.fixture(params=IMPLEMENTATIONS)
def reading_now(request, monkeypatch):
    """The implementation that reads and writes batches, for one test."""
    use(request.param, monkeypatch)


@pytest.mark.cases(1)
@pytest.mark.usefixtures("reading_now")
def test_random_inputs_are_accepted_only_if_java_reads_the_same(pytestconfig, chance):
    left = pytestconfig.getoption("fuzz_inputs")
    found = 0
    while left > 0:
        batches = [hostile_batch(chance) for _ in range(min(left, AT_ONCE))]
        left -= len(batches)
        for batch, (consumer, broker) in zip(batches, in_java(batches), strict=True):
            read, kept = accepted(batch), stored(batch)
            if read is not None:
                assert (summary(read.records), "stored") == (consumer, broker), batch.hex()
                found += 1
            if kept is not None:
                assert summary(kept.records, kept.offsets) == consumer, batch.hex()
    assert found > pytestconfig.getoption("fuzz_inputs") // 10


def _cut(data, chance):
    """Data in two or more parts, some of them empty."""
    ends = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((1, 1, 2, 5))))
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def _members(data, chance):
    return b"".join(gzip_member(part, chance) for part in _cut(data, chance))


def _versions(data, chance):
    blocks = [snappy_block(part) for part in _cut(data, chance) if part]
    return xerial(*blocks, versions=(chance.choice((0, 1, 2, 2**31, 2**32 - 1)), 1))


@pytest.mark.usefixtures("reading_now")
@pytest.mark.parametrize(("codec", "framing"), [("gzip", _members), ("snappy", _versions)])
def test_gzip_members_and_versions_of_xerial_framing_are_read_as_java_reads_them(
    codec, framing, chance
):
    batches = []
    for size in (0, 100, 8_000, 8_150, 8_192, 16_300, 70_000):
        for _ in range(40):
            records = [Record(NOW, None, chance.randbytes(size + chance.randrange(90)), ())]
            section = encode_batch(records)[HEADER.size :]
            batches.append(encode_batch(records, codec=codec, payload=framing(section, chance)))
    for batch, (consumer, broker) in zip(batches, in_java(batches), strict=True):
        assert (summary(accepted(batch).records), "stored") == (consumer, broker), batch.hex()
        assert summary(stored(batch).records) == consumer, batch.hex()


@pytest.mark.usefixtures("reading_now")
def test_random_inputs_that_are_written_again_are_read_by_java(pytestconfig, chance):
    left = pytestconfig.getoption("fuzz_inputs") // 10
    while left > 0:
        batches = [hostile_batch(chance) for _ in range(min(left, AT_ONCE // 5))]
        left -= len(batches)
        written = [
            again for batch in batches if accepted(batch) for again in written_again(batch, chance)
        ]
        assert written
        for batch, (consumer, broker) in zip(written, in_java(written), strict=True):
            assert (summary(accepted(batch).records), "stored") == (consumer, broker), batch.hex()
