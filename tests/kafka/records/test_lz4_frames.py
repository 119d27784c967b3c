"""Frames that Java reads to their end are accepted; what the C library reads besides is not."""

import pytest

from penstock.kafka.records.compression import Scratch, decompress
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.lz4_frames import BLOCKS_MAX, TooManyBlocksError, check_frame
from tests.kafka.records.framings import lz4_block, lz4_frame
from tests.kafka.records.lz4_samples import DATA, READ, REFUSED


@pytest.mark.parametrize("frame", READ.values(), ids=READ)
def test_a_frame_that_java_reads_is_accepted(frame):
    check_frame(memoryview(frame))
    scratch = Scratch(ahead=0)
    size = decompress(3, memoryview(frame), 1 << 20, scratch)
    assert bytes(scratch.buffer[:size]).replace(DATA, b"") in {b"", b"x"}


@pytest.mark.parametrize("frame", REFUSED.values(), ids=REFUSED)
def test_a_frame_that_java_does_not_read_to_its_end_is_refused(frame):
    with pytest.raises(ValueError):
        check_frame(memoryview(frame))
    with pytest.raises(UnreadableRecords, match="cannot be decompressed with lz4") as refused:
        decompress(3, memoryview(frame), 1 << 20, Scratch(ahead=0))
    assert refused.value.code == 2


def test_very_many_blocks_are_refused():
    block = lz4_block(b"x", stored=True)
    check_frame(memoryview(lz4_frame(*[block] * BLOCKS_MAX)))
    more = memoryview(lz4_frame(*[block] * (BLOCKS_MAX + 1)))
    with pytest.raises(TooManyBlocksError):
        check_frame(more)
    with pytest.raises(UnreadableRecords, match="more than 65536 lz4 blocks") as refused:
        decompress(3, more, 1 << 20, Scratch(ahead=0))
    assert refused.value.code == 87
