"""Avro's numbers of variable length: seven bits a byte, the lowest first, zigzag.

As Java reads them, a number may have more bytes than it needs, up to 5 for an int and 10 for a
long. Bits beyond 32 or 64, which Java drops, are an error.
"""

from __future__ import annotations

from typing import Final

LONGEST: Final = {32: 5, 64: 10}
"""The most bytes of an int and of a long, by their bits."""


class TooLongError(ValueError):
    """A number has more bits than its type."""


def read_number(data: bytes, position: int, bits: int = 64) -> tuple[int, int]:
    """Return a number and the position behind it.

    Raises:
        IndexError: The data end before it does.
        TooLongError: It has more bits than its type.
    """
    unsigned = shift = 0
    for at in range(position, position + LONGEST[bits]):
        byte = data[at]
        unsigned |= (byte & 127) << shift
        if byte < 128:
            if unsigned >> bits:
                break
            return (unsigned >> 1) ^ -(unsigned & 1), at + 1
        shift += 7
    raise TooLongError


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """Return a length, or an index, and the position behind it.

    Raises:
        IndexError: The data end before it does.
        ValueError: It is negative, or not a long.
    """
    length, position = read_number(data, position)
    if length < 0:
        raise ValueError
    return length, position


def read_block(data: bytes, position: int) -> tuple[int, int, int]:
    """Read how many items follow; a negative number says that the size in bytes follows, too.

    Returns:
        How many items; the position after it; the end of the block, or 0 if it is not given.

    Raises:
        IndexError: The data end before it does.
        ValueError: The size is negative, or a number is not a long.
    """
    count, position = read_number(data, position)
    if count >= 0:
        return count, position, 0
    size, position = read_length(data, position)
    return -count, position, position + size
