"""Native and Python, the same stored batches: the same records, the same texts, the same batches cut.

Bounded in `make test`; `make fuzz` for more.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import BASE_TIMESTAMP, BASE_TIMESTAMP_AT, HEADER
from penstock.kafka.records.stored_batch import read_stored_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_record, encode_stored, zigzag
from tests.kafka.records.implementations import IMPLEMENTATIONS, SLACK, use
from tests.kafka.records.in_python.single_record import HEADERS_MAX
from tests.kafka.records.native_results import record, results_of
from tests.kafka.records.sections import RECORD, encode_length, mutated, varints

PYTHON, NATIVE = (implementation.read_stored for implementation in IMPLEMENTATIONS.values())
NOW = 1_700_000_000_000
DELTAS = (0, 2, 3, 70)
LAST = 80
RECORDS = [
    Record(NOW, b"key", b'{"a": 1}', [Header("name", b"x"), Header("none", None)]),
    Record(NOW + 1, None, b"v" * 80),
    Record(NOW - 9, b"k", None, [Header("h", b"")]),
    Record(NOW - 9, None, None),
]
BODY = encode_stored(RECORDS, DELTAS)[HEADER.size :]
KEYS = b"hn\xff\xc3"
"""The bytes of header keys: the beginnings of keys in `WITHOUT`, and bytes that are not UTF-8."""
WITHOUT = ("na", "h")
APPENDED = [("added", b"1"), ("ü", None)]


def view_of(body, base_timestamp=NOW, count=4):
    """A batch whose header is as `read_stored` is given it, and memory behind it."""
    head = bytearray(HEADER.size)
    head[16] = 2
    BASE_TIMESTAMP.pack_into(head, BASE_TIMESTAMP_AT, base_timestamp)
    head[-4:] = count.to_bytes(4, "big")
    return memoryview(bytes(head) + body + b"\x81" * SLACK)[: HEADER.size + len(body)]


def columns(records):
    return results_of(records), records.timestamps, records.keys, records.values, records.headers


def outcome(read, body, count, last, log_append_time):
    """Return the records and the batches made of them, or the error text."""
    try:
        records = read(view_of(body, count=count), count, last, log_append_time)
    except UnreadableRecords as error:
        return error.code, error.message
    size = len(records)
    part = records.part(size // 3, size)
    letters = records.cut(range(size), None, [APPENDED] * size, WITHOUT, True, 0, 2**40)
    cut, latest = part.cut(range(len(part)), None, None, (), False)
    behind, _ = part.cut(range(len(part)), None, None, (), False, 300, -7)
    return (
        *columns(records), records.offsets(5), part.offsets(5), columns(part), latest, letters[1],
        columns(read(view_of(letters[0], 7, size), size, size, None)),
        columns(read(view_of(behind, NOW, len(part)), len(part), 300 + size, None)),
        columns(read(view_of(cut, NOW, len(part)), len(part), size, None)),
    )  # fmt: skip


def same(body, count=4, last=LAST, log_append_time=None):
    """Compare; return whether it could be read."""
    native = outcome(NATIVE, body, count, last, log_append_time)
    assert native == outcome(PYTHON, body, count, last, log_append_time), body.hex()
    return len(native) > 2


def test_batches_truncated_at_every_byte_have_the_same_result():
    for size in range(len(BODY)):
        assert not same(BODY[:size])
    assert same(BODY)
    assert same(BODY, log_append_time=2**63 - 1)


@pytest.mark.thorough
def test_batches_with_any_flipped_bit_have_the_same_result():
    flipped = bytearray(BODY)
    read = 0
    for bit in range(8 * len(BODY)):
        flipped[bit // 8] ^= 1 << bit % 8
        read += same(bytes(flipped))
        flipped[bit // 8] ^= 1 << bit % 8
    assert 500 < read < 8 * len(BODY)


@pytest.mark.parametrize("count", [1, 3, 5, 2**31 - 1])
def test_wrong_record_counts_have_the_same_result(count):
    assert not same(BODY, count)


@pytest.mark.parametrize("last", [0, 3, 69, 70, 2**31 - 1])
def test_last_offset_deltas_have_the_same_result(last):
    assert same(BODY, last=last) == (last >= DELTAS[-1])


@pytest.mark.thorough
def test_every_byte_at_every_place_of_a_record_has_the_same_result():
    record = encode_record(Record(5, b"k", b"v", [Header("hé", b"x")]), 7, NOW)
    read = 0
    for place in range(len(record)):
        for byte in range(256):
            read += same(record[:place] + bytes([byte]) + record[place + 1 :], 1)
    assert read > 1000


@pytest.mark.thorough
def test_random_inputs_have_the_same_result(pytestconfig, chance):
    count = pytestconfig.getoption("fuzz_inputs") // 2
    read = sum(same(mutated(chance, BODY)) for _ in range(count))
    assert count / 40 < read < count * 3 / 4


@pytest.mark.thorough
def test_random_inputs_with_unusual_numbers_gaps_and_header_keys_have_the_same_result(
    pytestconfig, chance
):
    count = pytestconfig.getoption("fuzz_inputs") // 2
    read = 0
    for _ in range(count):
        deltas = [chance.choice([0, 0, 1, 2]), chance.choice([1, 2, 3, 3, 90, -1, 2**31 - 1])]
        deltas = deltas[: chance.randrange(1, 3)]
        body = b"".join(record(chance, delta, KEYS) for delta in deltas)
        read += same(body, len(deltas), chance.choice([2, 3, 2**31 - 1]))
    assert count / 8 < read < count * 3 / 4


@pytest.mark.thorough
@settings(max_examples=200)
@given(
    st.lists(st.one_of(varints(), st.binary(max_size=6)), min_size=1, max_size=20), st.booleans()
)
def test_unusual_varints_have_the_same_result(parts, sized):
    body = b"".join(parts)
    same(encode_length(body) if sized else body, 1)


@pytest.mark.parametrize("wrong", [b"", b"\x00", b"\x03ab\x01"])
def test_very_many_headers_have_the_same_result(wrong):
    """An odd key behind as many headers as a part is named for, and something wrong there."""
    headers = b"\x00\x01" * (HEADERS_MAX + 1) + b"\x02\xff\x01" + wrong
    body = b"\x00\x00\x00\x01\x01" + zigzag(HEADERS_MAX + 2) + headers
    assert same(zigzag(len(body)) + body, 1) == (not wrong)


def written(wanted, data, kept, **options):
    """The new batch by one implementation."""
    with pytest.MonkeyPatch.context() as patch:
        use(wanted, patch)
        batch = read_stored_batch(data, max_decompressed_bytes=1 << 24)
    changes = options.pop("changes")
    replaced = None
    if changes:
        keys, values = list(batch.records.keys), list(batch.records.values)
        for at, (key, value) in changes.items():
            keys[at], values[at] = key, value
        replaced = keys, values
    return batch.cut(kept, replaced=replaced, **options)


@pytest.mark.thorough
@settings(max_examples=100)
@given(st.lists(RECORD, min_size=1, max_size=12), st.integers(0, 4), st.data())
def test_random_parts_have_the_same_bytes(records, codec, data):
    steps = data.draw(st.lists(st.integers(1, 3), min_size=len(records), max_size=len(records)))
    deltas = [sum(steps[: at + 1]) - 1 for at in range(len(records))]
    kept = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    fields = st.none() | st.binary(max_size=100)
    places = st.integers(0, len(records) - 1)
    header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5))
    options = {
        "changes": data.draw(st.dictionaries(places, st.tuples(fields, fields))),
        "appended": data.draw(
            st.none() | st.lists(st.lists(header), min_size=len(kept), max_size=len(kept))
        ),
        "without": data.draw(st.lists(st.text(min_size=1, max_size=1), max_size=2)),
        "timestamp": data.draw(st.none() | st.integers(-1, 2**62)),
    }
    batch = encode_stored(records, deltas, base_offset=9, attributes=codec)
    assert written("native", batch, kept, **options) == written("Python", batch, kept, **options)


@pytest.mark.parametrize(
    ("kept", "replaced", "appended"),
    [
        ([4], None, None),
        ([-1], None, None),
        (["0"], None, None),
        ([3], ([None], [None]), None),
        ([0], None, []),
        ([0], None, [[("a",)]]),
        ([0], None, [[["a", b""]]]),
        ([0], None, [[("a", bytearray(b""))]]),
        ([0], (["text"] * 4, [None] * 4), None),
        (5, None, None),
    ],
)
def test_wrong_calls_raise(kept, replaced, appended):
    records = NATIVE(view_of(BODY), 4, LAST, None)
    with pytest.raises((ValueError, TypeError, IndexError, OverflowError)):
        records.cut(kept, replaced, appended, (), False)


@pytest.mark.parametrize(("start", "end"), [(0, 5), (3, 2), (5, 5), (-1, 2), (-1, -1)])
def test_missing_parts_are_an_error(start, end):
    for read in (NATIVE, PYTHON):
        with pytest.raises((IndexError, OverflowError)):
            read(view_of(BODY), 4, LAST, None).part(start, end)
