"""Batches with other records and the same checksum: four bytes suffice for any CRC-32C."""

import crc32c

from penstock.kafka.records.header import CRC_FROM, checksum, is_intact

_FREE = slice(-5, -1)
"""The end of the last value, before the number of headers."""


def forged(data: bytes, original: bytes) -> bytes:
    """Return a batch with the checksum of another.

    Args:
        data: The batch; the last four bytes of its last value are replaced.
        original: The other batch.
    """

    def checksum_with(bits: int) -> int:
        changed = bytearray(data)
        changed[_FREE] = bits.to_bytes(4, "big")
        return crc32c.crc32c(changed[CRC_FROM:])

    start = checksum_with(0)
    wanted, bits = checksum(original) ^ start, 0
    effects: list[tuple[int, int]] = []  # of some bits, each with another highest bit
    for place in range(32):
        effect, of_bits = checksum_with(1 << place) ^ start, 1 << place
        for other, other_bits in effects:
            if effect ^ other < effect:
                effect, of_bits = effect ^ other, of_bits ^ other_bits
        effects.append((effect, of_bits))
        effects.sort(reverse=True)
    for effect, of_bits in effects:
        if wanted ^ effect < wanted:
            wanted, bits = wanted ^ effect, bits ^ of_bits
    changed = bytearray(data)
    changed[_FREE] = bits.to_bytes(4, "big")
    changed[CRC_FROM - 4 : CRC_FROM] = original[CRC_FROM - 4 : CRC_FROM]
    assert is_intact(changed)
    return bytes(changed)
