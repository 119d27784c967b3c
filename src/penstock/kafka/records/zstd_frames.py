"""The windows of zstd frames (RFC 8878): how far back a copy may reach.

The C library accepts copies that reach further. Their bytes depend on the buffers of a reader: with
room for all of the content it finds those that were there, in pieces those that replaced them.
"""

from __future__ import annotations

from typing import Final

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = 0x184D2A5
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_SINGLE_SEGMENT: Final = 0x20
_CHECKSUM: Final = 0x04
_RUN: Final = 1
_LOG_MIN: Final = 10
_LOG_MAX: Final = 27
_BLOCKS_MAX: Final = 2**18
"""Blocks cost time, however little is in them; clients put up to 128 KiB in each."""


def with_larger_windows(data: memoryview, size: int) -> bytes | None:
    """Return frames whose windows have room for all of their content.

    Args:
        data: Frames that have been read.
        size: The size of their content.

    Returns:
        The same frames but for their windows; None if the windows have that room.

    Raises:
        ValueError: No reader has such windows, or these are not frames, or of too many blocks.
    """
    smaller = [position for position in _windows(data) if _window_bytes(data[position]) < size]
    if not smaller:
        return None
    log = max(_LOG_MIN, (size - 1).bit_length())
    if log > _LOG_MAX:
        raise ValueError(size)
    larger = bytearray(data)
    for position in smaller:
        larger[position] = (log - _LOG_MIN) << 3
    return bytes(larger)


def _window_bytes(descriptor: int) -> int:
    base = 1 << _LOG_MIN + (descriptor >> 3)
    return base + (base >> 3) * (descriptor & 7)


def _windows(data: memoryview) -> list[int]:
    """Return where frames describe their windows; those that are one segment do not."""
    positions: list[int] = []
    position, remaining_blocks = 0, _BLOCKS_MAX
    try:
        while position < len(data):
            if int.from_bytes(data[position : position + 4], "little") >> 4 == _SKIPPABLE:
                position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
                continue
            if bytes(data[position : position + 4]) != _MAGIC:
                raise ValueError(position)
            flags = data[position + 4]
            position += 5
            if not flags & _SINGLE_SEGMENT:
                positions.append(position)
                position += 1
            position += _DICTIONARY_BYTES[flags & 3]
            position += _CONTENT_SIZE_BYTES[flags >> 6] or bool(flags & _SINGLE_SEGMENT)
            position, remaining_blocks = _end_of_blocks(data, position, remaining_blocks)
            position += 4 if flags & _CHECKSUM else 0
    except IndexError:
        raise ValueError(position) from None
    return positions


def _end_of_blocks(data: memoryview, position: int, remaining_blocks: int) -> tuple[int, int]:
    """Return where the blocks of a frame end, and how many more there may be."""
    is_last = False
    while not is_last:
        if not remaining_blocks:
            raise ValueError(position)
        remaining_blocks -= 1
        first = data[position]
        is_last = bool(first & 1)
        size = (first | data[position + 1] << 8 | data[position + 2] << 16) >> 3
        position += 3 + (1 if first >> 1 & 3 == _RUN else size)
    return position, remaining_blocks
