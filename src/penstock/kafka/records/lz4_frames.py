"""The lz4 frames that Kafka's readers read (Lz4BlockInputStream, KIP-57).

The C library reads more: frames after the first, blocks that depend on each other, dictionaries,
and blocks of nothing, which Java takes for the end of the records.
"""

from __future__ import annotations

from typing import Final

BLOCKS_MAX: Final = 65_536
"""Blocks cost time, however little is in them; clients put 64 KiB in each."""

_MAGIC: Final = b"\x04\x22\x4d\x18"
_VERSION_AND_RESERVED: Final = 0xE3
_VERSION_1_INDEPENDENT: Final = 0x60
_BLOCK_CHECKSUMS: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_CONTENT_CHECKSUM: Final = 0x04
_BLOCK_SIZES: Final = (0x40, 0x50, 0x60, 0x70)
_DESCRIPTOR_BYTES: Final = 7
_SIZE_BYTES: Final = 4
_CHECKSUM_BYTES: Final = 4
_STORED: Final = 0x8000_0000
_NOTHING: Final = 1
"""The size of a compressed block of nothing: one token, and no block of something is as small."""


class TooManyBlocksError(ValueError):
    """The frame has more blocks than are read."""


def check_frame(data: memoryview) -> None:
    """Check that the data is one frame that Java reads to its end.

    Checksums, and what is in a block, are left to the reader of the frame.

    Args:
        data: The compressed records of a batch.

    Raises:
        ValueError: It is not, or there are too many blocks (`TooManyBlocksError`).
    """
    if bytes(data[: len(_MAGIC)]) != _MAGIC or len(data) < _DESCRIPTOR_BYTES:
        raise ValueError("no frame")
    flags, sizes = data[4:6]
    if flags & _VERSION_AND_RESERVED != _VERSION_1_INDEPENDENT or sizes not in _BLOCK_SIZES:
        raise ValueError("a frame that Java does not read")
    position = _DESCRIPTOR_BYTES + (8 if flags & _CONTENT_SIZE else 0)
    end = _end_of_blocks(data, position, _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUMS else 0)
    if end + (_CHECKSUM_BYTES if flags & _CONTENT_CHECKSUM else 0) != len(data):
        raise ValueError("something after the frame")


def _end_of_blocks(data: memoryview, position: int, behind: int) -> int:
    """Return where the end mark of the frame ends; each block has some bytes behind it."""
    remaining_blocks = BLOCKS_MAX
    while position + _SIZE_BYTES <= len(data):
        field = int.from_bytes(data[position : position + _SIZE_BYTES], "little")
        position += _SIZE_BYTES
        if not field:
            return position
        size = field & ~_STORED
        if not size or (size == _NOTHING and size == field):
            raise ValueError("a block of nothing")
        if not remaining_blocks:
            raise TooManyBlocksError
        remaining_blocks -= 1
        position += size + behind
    raise ValueError("no end mark")
