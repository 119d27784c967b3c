"""Native and Python, the same bytes: the same records, the same texts, the same batches written.

Bounded in `make test`; `make fuzz` for more.
"""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kafka.records.batch import read_batch
from penstock.kafka.records.encoder import rebuild
from penstock.kafka.records.errors import UnreadableRecords
from penstock.kafka.records.header import HEADER
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch
from tests.kafka.records.implementations import IMPLEMENTATIONS, SLACK, use
from tests.kafka.records.native_results import record, results_of
from tests.kafka.records.sections import BODY, RECORD, RECORDS, encode_length, mutated, varints

PYTHON, NATIVE = (implementation.read for implementation in IMPLEMENTATIONS.values())
HEAD = encode_batch(RECORDS)[: HEADER.size]
SMALL = encode_batch(RECORDS)[HEADER.size :]


def outcome(read, body, count=3, head=HEAD):
    """Return the records, or the error text."""
    head = head[:-4] + count.to_bytes(4, "big")
    view = memoryview(head + body + b"\x81" * SLACK)[: HEADER.size + len(body)]
    try:
        records = read(view, count)
    except UnreadableRecords as error:
        return error.code, error.message
    return results_of(records), records.timestamps, records.keys, records.values, records.headers


def same(body, count=3, head=HEAD):
    """Compare; return whether it could be read."""
    native = outcome(NATIVE, body, count, head)
    assert native == outcome(PYTHON, body, count, head), body.hex()
    return len(native) > 2


def test_batches_truncated_at_every_byte_have_the_same_result():
    for size in range(len(SMALL)):
        assert not same(SMALL[:size])
    assert same(SMALL)


def test_batches_with_any_flipped_bit_have_the_same_result():
    flipped = bytearray(SMALL)
    read = 0
    for bit in range(8 * len(SMALL)):
        flipped[bit // 8] ^= 1 << bit % 8
        read += same(bytes(flipped))
        flipped[bit // 8] ^= 1 << bit % 8
    assert 500 < read < 8 * len(SMALL)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 2**31 - 1])
def test_wrong_record_counts_have_the_same_result(count):
    assert not same(SMALL, count)


def test_every_byte_at_every_place_of_a_record_has_the_same_result():
    record = encode_batch([Record(5, b"k", b"v", [Header("h", b"x")])])[HEADER.size :]
    read = 0
    for place in range(len(record)):
        for byte in range(256):
            read += same(record[:place] + bytes([byte]) + record[place + 1 :], 1)
    assert read > 1000


@pytest.mark.thorough
def test_random_inputs_have_the_same_result(pytestconfig, chance):
    count = pytestconfig.getoption("fuzz_inputs")
    read = sum(same(mutated(chance, BODY)) for _ in range(count))
    assert count / 40 < read < count * 3 / 4


@pytest.mark.thorough
@settings(max_examples=400)
@given(
    st.lists(st.one_of(varints(), st.binary(max_size=6)), min_size=1, max_size=20), st.booleans()
)
def test_unusual_varints_have_the_same_result(parts, sized):
    body = b"".join(parts)
    same(encode_length(body) if sized else body, 1)


@pytest.mark.thorough
def test_random_inputs_with_padded_or_too_wide_numbers_have_the_same_result(pytestconfig, chance):
    count = pytestconfig.getoption("fuzz_inputs")
    read = 0
    for _ in range(count):
        records = chance.randrange(1, 3)
        read += same(b"".join(record(chance, at) for at in range(records)), records)
    assert count / 8 < read < count / 2


@pytest.mark.system
def test_no_memory_is_a_memory_error():
    """In a separate process, whose memory is limited while columns are created."""
    done = subprocess.run(
        [sys.executable, "-c", SCARCE], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.returncode) == (["MemoryError"] * 6, 0), done.stderr


SCARCE = """
import resource
from penstock import _native
value = bytes(48 << 20)
def varint(raw):
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])
body = b"\\x00\\x00\\x00\\x01" + varint(2 * len(value)) + value + b"\\x00"
section = varint(2 * len(body)) + body
records = _native.read(section, 1, 0, tuple)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (8 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for make in (
    lambda: records.values,
    lambda: records.values_after(b""),
    lambda: records.values_arrow,
    lambda: records.rewritten([0], [None], [value]),
    lambda: records.cut([0], None, [[("h", value)]], [], False),
    lambda: _native.read(section, 1, 0, tuple),
):
    try:
        make()
    except BaseException as error:
        print(type(error).__name__)
"""


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(RECORD, min_size=1, max_size=20))
def test_random_written_batches_are_read(records):
    batch = encode_batch(records)
    assert same(batch[HEADER.size :], len(records), batch[: HEADER.size])


fields_alike = st.none() | st.binary(max_size=3).map(b"\0\0id".__add__)


@pytest.mark.thorough
@settings(max_examples=300)
@given(
    st.lists(st.tuples(fields_alike, fields_alike), min_size=1, max_size=6),
    st.sampled_from([b"\0\0id"[:size] for size in range(5)]),
)
def test_bytes_after_a_prefix_are_returned(pairs, prefix):
    data = encode_batch([Record(0, key, value) for key, value in pairs])
    view = memoryview(data + bytes(SLACK))[: len(data)]
    for column, after in zip(zip(*pairs, strict=True), ("keys_after", "values_after"), strict=True):
        expected = None if None in column else tuple(field[len(prefix) :] for field in column)
        for read in (PYTHON, NATIVE):
            assert getattr(read(view, len(pairs)), after)(prefix) == expected


@pytest.mark.parametrize("prefix", [None, "text", 5])
def test_invalid_prefixes_are_an_error(prefix):
    records = NATIVE(memoryview(HEAD + SMALL), 3)
    with pytest.raises(TypeError):
        records.values_after(prefix)


def written(wanted, data, kept, changes):
    """The new batch by one implementation."""
    with pytest.MonkeyPatch.context() as patch:
        use(wanted, patch)
        batch = read_batch(data, api_version=9, max_decompressed_bytes=1 << 24)
    keys = [changes.get(at, (batch.records.keys[at],))[0] for at in kept]
    values = [changes.get(at, (batch.records.values[at],))[-1] for at in kept]
    return rebuild(batch, kept, keys, values)


@pytest.mark.thorough
@settings(max_examples=200)
@given(st.lists(RECORD, min_size=1, max_size=12), st.integers(0, 4), st.data())
def test_random_rewritten_batches_have_the_same_bytes(records, codec, data):
    kept = sorted(data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    fields = st.none() | st.binary(max_size=100)
    changes = data.draw(st.dictionaries(st.sampled_from(kept), st.tuples(fields, fields)))
    batch = encode_batch(records, codec=codec)
    assert written("native", batch, kept, changes) == written("Python", batch, kept, changes)


def test_unchanged_records_keep_unusual_bytes():
    odd = b"\x80\x00" + b"\x80\x00" + b"\x81\x00" + b"\x81\x00" + b"\x80\x00"
    first = bytes([2 * len(odd) + 2]) + b"\x00" + odd
    second = b"\x0e\x00\x00\x02\x01\x02b\x00"
    data = encode_batch([Record(0, None, None)] * 2, body=first + second)
    assert written("native", data, [0, 1], {1: (None, b"c")})[61:] == first + second.replace(
        b"b", b"c"
    )
    assert written("native", data, [0], {0: (None, b"c")})[61:] == first[:8] + b"\x02c" + odd[8:]


def test_arrow_arrays_outlive_their_batch():
    values = [None if i % 7 == 0 else b"%d" % i * (i % 5) for i in range(1000)]
    data = encode_batch([Record(0, None, value) for value in values])
    records = NATIVE(memoryview(data), len(values))
    keys, column = records.keys_arrow, records.values_arrow
    assert (len(keys), len(column)) == (1000, 1000)
    array, nulls = pa.array(column), pa.array(keys)
    for arrow in (array, nulls):
        arrow.validate(full=True)
        assert arrow.type == pa.binary()
    schema, unused = column.__arrow_c_array__()
    assert pa.DataType._import_from_c_capsule(column.__arrow_c_schema__()) == pa.binary()
    del records, column, keys, schema, unused
    gc.collect()
    assert array.to_pylist() == values
    assert (array.null_count, nulls.null_count) == (143, 1000)


def test_an_arrow_array_without_nulls_has_no_validity_bitmap():
    data = encode_batch([Record(0, None, b"")] * 3)
    array = pa.array(NATIVE(memoryview(data), 3).values_arrow)
    assert array.buffers()[0] is None
    assert array.to_pylist() == [b""] * 3


@pytest.mark.parametrize(
    ("kept", "keys", "values"),
    [
        ([3], [None], [None]),
        ([-1], [None], [None]),
        (["0"], [None], [None]),
        ([0, 1], [None], [None]),
        ([0], ["text"], [None]),
        ([0], [None], [bytearray(b"x")]),
        (5, [], []),
    ],
)
def test_wrong_calls_raise(kept, keys, values):
    records = NATIVE(memoryview(HEAD + SMALL), 3)
    with pytest.raises((ValueError, TypeError, IndexError, OverflowError)):
        records.rewritten(kept, keys, values)


def test_threads_may_read_the_same_records():
    values = [b"%d" % i for i in range(20_000)]
    data = encode_batch([Record(0, None, value) for value in values])
    with ThreadPoolExecutor(4) as threads:
        read = list(threads.map(lambda _: NATIVE(memoryview(data), len(values)), range(8)))
        columns = list(threads.map(lambda records: records.values, read * 4))
    assert all(column == tuple(values) for column in columns)
