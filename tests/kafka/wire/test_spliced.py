"""A frame with replaced bytes in some places."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.wire.spliced import SplicedFrame, framed

contents = st.binary(max_size=30) | st.integers(4000, 5000).map(bytes)


@given(st.lists(st.tuples(contents, contents, contents), max_size=5), contents)
def test_only_the_given_parts_are_replaced(parts, end):
    frame = b"head" + b"".join(kept + old for kept, old, _ in parts) + end
    spliced, position = SplicedFrame(frame, 4), 4
    for kept, old, new in parts:
        position += len(kept)
        spliced.replace(position, position + len(old), new)
        position += len(old)
    buffers = spliced.finish(len(frame))
    expected = b"".join(kept + new for kept, _, new in parts) + end
    assert b"".join(buffers) == expected
    assert spliced.is_changed == bool(parts)
    assert b"".join(framed(buffers)) == len(expected).to_bytes(4, "big") + expected


def test_many_small_parts_use_little_memory_and_large_parts_are_not_copied():
    frame = bytes(2_000_000)
    tracemalloc.start()
    spliced = SplicedFrame(frame, 0)
    for position in range(0, 500_000, 10):
        spliced.replace(position, position + 5, b"12345")
    buffers = spliced.finish(len(frame))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, buffers)) == len(frame)
    assert most < 800_000
