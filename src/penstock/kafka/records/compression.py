"""Compression, and decompression with a limit that holds while decompressing.

Output goes into a buffer of fixed size that grows in steps up to the limit; a stream that
would exceed it is stopped there, whatever size it announces.

A batch that consumers cannot read stops them at its offset, so what Kafka's own reader refuses is
refused. Of lz4 it reads one frame, of some kinds. Of gzip it reads all members; readers that end
after the first have a prefix of the judged records. The decoder accepts only the announced number
of records up to the very last byte, so a reader of the prefix finds the same records or an error.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import cramjam

from penstock.kafka.error_codes import CORRUPT_MESSAGE, INVALID_RECORD
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import ZSTD
from penstock.kafka.records.lz4_frames import BLOCKS_MAX, TooManyBlocksError, check_frame
from penstock.kafka.records.zstd_frames import with_larger_windows

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's codecs, by number."""
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3

_FIRST_GUESS: Final = 4  # times the compressed size
_GROWTH: Final = 8
_MIN_SIZE: Final = 16 * 1024
_SCRATCH_KEPT: Final = 8 * 2**20
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_HEADER: Final = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_LZ4_FAST: Final = 0
"""Java's producer, too, takes the fast compressor unless a level is configured (KIP-390)."""
_FASTEST: Final = 1
"""Of gzip and zstd; snappy has no levels, and lz4 is always fast."""


def compress(codec: int, data: memoryview, *, fast: bool = False) -> bytes:
    """Compress the records of a batch as Kafka's clients do, at their default level.

    Args:
        codec: Kafka's number: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        fast: Whether to compress at the fastest level of the codec instead.
    """
    if codec == SNAPPY:
        parts = [_XERIAL_HEADER]
        for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
            parts += (len(block).to_bytes(4, "big"), block)
        return b"".join(parts)
    if codec == LZ4:  # Kafka reads no frames whose blocks depend on each other (KIP-57)
        # The batch has a checksum. That of a frame takes readers as long as all the rest; Kafka's
        # clients write none.
        compressor = cramjam.lz4.Compressor(
            level=_LZ4_FAST, content_checksum=False, block_linked=False
        )
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    module = cramjam.gzip if codec == GZIP else cramjam.zstd
    return bytes(module.compress(data, _FASTEST) if fast else module.compress(data))


def decompress(codec: int, data: memoryview, limit: int, scratch: Scratch) -> int:
    """Decompress the records of a batch into a scratch buffer.

    Args:
        codec: Kafka's number: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        data: The compressed bytes.
        limit: The maximum size of the output.
        scratch: Receives them.

    Returns:
        How many bytes came out.

    Raises:
        UnreadableRecords: Too much comes out (87), or the data is damaged (2).
    """
    if codec == SNAPPY:
        return _snappy(data, limit, scratch)
    if codec == LZ4:
        _check_lz4(data)
    into = _INTO[codec]
    size = min(limit, max(_FIRST_GUESS * len(data), scratch.size))
    while True:
        try:
            with scratch.room(size) as room:
                count = into(data, room)
                if codec == ZSTD:
                    _check_windows(data, room[:count])
                return count
        except cramjam.DecompressionError as error:
            if not is_buffer_too_small(error):
                raise _damaged(codec) from None
            if size == limit:
                raise _too_large(limit) from None
            size = min(limit, size * _GROWTH)


def _check_lz4(data: memoryview) -> None:
    """Check that Java reads the frame.

    Raises:
        UnreadableRecords: It does not (2), or there are too many blocks (87).
    """
    try:
        check_frame(data)
    except TooManyBlocksError:
        raise _too_many_blocks(LZ4) from None
    except ValueError:
        raise _damaged(LZ4) from None


def _check_windows(data: memoryview, content: memoryview) -> None:
    """Check that a reader with room for all of the content finds the same, as librdkafka has.

    Raises:
        UnreadableRecords: They do not.
    """
    try:
        larger = with_larger_windows(data, len(content))
        if larger is None:
            return
        again = bytearray(len(content))
        is_same = cramjam.zstd.decompress_into(larger, again) == len(content) and again == content
    except (cramjam.DecompressionError, ValueError):
        is_same = False
    if not is_same:
        raise _damaged(ZSTD)


def is_buffer_too_small(error: cramjam.DecompressionError) -> bool:
    """Return whether a stream needs a larger buffer; otherwise it is damaged.

    cramjam (2.14) has one exception for both: its text, which is Rust's, distinguishes them.
    """
    return "failed to write whole buffer" in str(error)


class Scratch(threading.local):
    """Memory that is used again for each batch: fresh pages cost more than decompressing.

    Each thread has its own, since cramjam lets other threads run while it writes there.
    """

    def __init__(self, *, ahead: int) -> None:
        """Start small.

        Args:
            ahead: The number of bytes before the returned buffer.
        """
        self._ahead = ahead
        self.buffer = bytearray(ahead + _MIN_SIZE)

    @property
    def size(self) -> int:
        """The size of a buffer that needs no other memory."""
        return min(len(self.buffer), _SCRATCH_KEPT) - self._ahead

    def room(self, size: int) -> memoryview:
        """Return a buffer of this size; release it before the next call."""
        needed = self._ahead + size
        if len(self.buffer) < needed or len(self.buffer) > max(needed, _SCRATCH_KEPT):
            self.buffer = bytearray(needed)
        return memoryview(self.buffer)[self._ahead : self._ahead + size]


_INTO: Final[dict[int, Callable[[memoryview, memoryview], int]]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def _snappy(data: memoryview, limit: int, scratch: Scratch) -> int:
    """Decompress snappy in either form that clients send: in xerial's blocks, or bare.

    Both announce their size, block by block. A reader distinguishes them by xerial's magic,
    which is not the beginning of a bare stream.
    """
    blocks = [data]
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        blocks = _xerial_blocks(data)
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        total = sum(sizes)
        if total > limit:
            raise _too_large(limit)
        position = 0
        with scratch.room(total) as room:
            for block, size in zip(blocks, sizes, strict=True):
                with room[position : position + size] as part:
                    if cramjam.snappy.decompress_raw_into(block, part) != size:
                        raise _damaged(SNAPPY)
                position += size
    except (cramjam.DecompressionError, ValueError, OverflowError):
        raise _damaged(SNAPPY) from None
    return total


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if size <= 0 or position + size > len(data):
            raise _damaged(SNAPPY)
        if len(blocks) == BLOCKS_MAX:
            raise _too_many_blocks(SNAPPY)
        blocks.append(data[position : position + size])
        position += size
    return blocks


def _damaged(codec: int) -> UnreadableRecords:
    return UnreadableRecords(
        CORRUPT_MESSAGE, f"The records cannot be decompressed with {NAMES[codec]}"
    )


def _too_many_blocks(codec: int) -> UnreadableRecords:
    return UnreadableRecords(
        INVALID_RECORD, f"The records come in more than {BLOCKS_MAX} {NAMES[codec]} blocks"
    )


def _too_large(limit: int) -> UnreadableRecords:
    return UnreadableRecords(
        INVALID_RECORD,
        f"The records grow past {limit} bytes when decompressed (decompressed.batch.max.bytes)",
    )
