"""Frames of LZ4 that a decoder reads, and refuses."""

from tests.kafka.records.framings import lz4_block, lz4_frame

DATA = b"some records " * 9
BLOCK, STORED = lz4_block(DATA), lz4_block(DATA, stored=True)
NOTHING = lz4_block(b"")
READ = {
    "a block": lz4_frame(BLOCK),
    "a stored block": lz4_frame(STORED),
    "two blocks": lz4_frame(BLOCK, STORED),
    "a stored byte": lz4_frame(BLOCK, lz4_block(b"x", stored=True)),
    "large blocks": lz4_frame(BLOCK, sizes=0x70),
    "checksums": lz4_frame(lz4_block(DATA, checksum=True), flags=0x74, content=DATA),
    "a size": lz4_frame(BLOCK, flags=0x68, content=DATA),
    "no block": lz4_frame(),
}
REFUSED = {
    "a block of nothing": lz4_frame(NOTHING),
    "a block of nothing first": lz4_frame(NOTHING, BLOCK),
    "a block of nothing between": lz4_frame(BLOCK, NOTHING, BLOCK),
    "a block of nothing last": lz4_frame(BLOCK, NOTHING),
    "a block of nothing with a match": lz4_frame(BLOCK, b"\1\0\0\0\x0f"),
    "a stored block of nothing": lz4_frame(BLOCK, lz4_block(b"", stored=True), BLOCK),
    "a checksum of nothing": lz4_frame(lz4_block(b"", checksum=True), flags=0x70),
    "blocks that depend on each other": lz4_frame(BLOCK, flags=0x40),
    "a dictionary": lz4_frame(BLOCK, flags=0x61, described=b"\7\0\0\0"),
    "the reserved bit": lz4_frame(BLOCK, flags=0x62),
    "another version": lz4_frame(BLOCK, flags=0xA0),
    "small blocks": lz4_frame(BLOCK, sizes=0x30),
    "a reserved bit of the size": lz4_frame(BLOCK, sizes=0x41),
    "a second frame": lz4_frame(BLOCK) + lz4_frame(BLOCK),
    "a second frame of nothing": lz4_frame(BLOCK) + lz4_frame(),
    "a frame that is skipped, first": b"\x50\x2a\x4d\x18\0\0\0\0" + lz4_frame(BLOCK),
    "a frame that is skipped, last": lz4_frame(BLOCK) + b"\x50\x2a\x4d\x18\0\0\0\0",
    "the legacy format": b"\x02\x21\x4c\x18" + BLOCK,
    "no end mark": lz4_frame(BLOCK, end=b""),
    "half an end mark": lz4_frame(BLOCK, end=b"\0\0"),
    "a byte behind": lz4_frame(BLOCK) + b"\0",
    "no checksum of the content": lz4_frame(BLOCK, flags=0x64, content=DATA)[:-1],
    "an end within a block": lz4_frame(BLOCK)[:20],
    "the magic alone": lz4_frame()[:4],
    "nothing": b"",
}
