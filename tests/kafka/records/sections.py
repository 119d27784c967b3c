"""Record sections, whole and damaged."""

import random

from hypothesis import strategies as st

from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch

NOW = 1_700_000_000_000
RECORDS = [
    Record(NOW, b"key", b'{"a": 1}', [Header("name", b"x"), Header("none", None)]),
    Record(NOW + 1, None, b"v" * 80),
    Record(NOW - 9, b"k", None, [Header("h", b"")]),
]
BODY = encode_batch(RECORDS)[61:]
# Numbers that change what a length, a flag or a varint means.
STRIKING = b"\x00\x01\x02\x03\x7e\x7f\x80\x81\xfe\xff"


def mutated(chance: random.Random, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(result))
        kind = chance.randrange(4)
        if kind == 0:
            result[at] = chance.choice(STRIKING)
        elif kind == 1:
            result[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            result[at : at + chance.randrange(3)] = chance.choices(STRIKING, k=chance.randrange(3))
        else:
            result[at:at] = b"\x80" * chance.randrange(1, 11)
        if not result:
            return b""
    return bytes(result)


NUMBERS = st.one_of(
    st.integers(-3, 200),
    st.sampled_from([2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**33, 2**63 - 1, -(2**31), -(2**63)]),
)


@st.composite
def varints(draw: st.DrawFn) -> bytes:
    """A varint, at times longer than it must be, at times cut off."""
    number = draw(NUMBERS)
    value = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3, 5, 9, 10]))):
        result[-1] |= 0x80
        result.append(0)
    return bytes(result[: draw(st.sampled_from([len(result)] * 9 + [1]))])


def encode_length(body: bytes) -> bytes:
    value, result = len(body) << 1, bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(result) + bytes([value]) + body


RECORD = st.builds(
    Record,
    st.integers(-1, 2**62),
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=300),
    st.lists(st.builds(Header, st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4),
)
