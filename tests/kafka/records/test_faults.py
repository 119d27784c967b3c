"""The errors of invalid records: the fault, and the record."""

import pytest

from penstock.kafka.records.batch import read_batch
from penstock.policy import Record
from tests.kafka.records.encoding import encode_batch, encode_record, values, zigzag
from tests.kafka.records.in_python.faults import find_fault, find_overlong
from tests.kafka.records.in_python.single_record import HEADERS_MAX
from tests.kafka.records.wide import WIDE, refusal

pytestmark = pytest.mark.usefixtures("reading")


def record(body: bytes) -> bytes:
    return zigzag(len(body)) + body


GOOD = record(b"\x00\x00\x00\x01\x01\x00")
LONG = b"\x80" * 5 + b"\x00"
# 2**32, which is 0 if the bits that are too many are lost.
WIDER = b"\x80\x80\x80\x80\x10"
LONG_NULL = b"\x81\x80\x80\x80\x80\x00"
WIDER_NULL = b"\x81\x80\x80\x80\x10"
TOO_MANY = (
    "Found invalid number of record headers. 4 is larger than the remaining size of the buffer"
)
STRUCTURE = "Found invalid record structure: "


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (b"", "Incorrect declared batch size, premature EOF reached"),
        (b"\x80", "Incorrect declared batch size, premature EOF reached"),
        (b"\x0e\x00\x00\x02\x01\x01", "Incorrect declared batch size, premature EOF reached"),
        (LONG, STRUCTURE + "length"),
        (b"\x8e\x80\x80\x80\x10\x00\x00\x02\x01\x01\x00", STRUCTURE + "length"),
        (b"\x01", STRUCTURE + "length"),
        (b"\x00", STRUCTURE + "attributes"),
        (record(b"\x80\x00\x00\x02\x01\x01\x00"), STRUCTURE + "attributes"),
        (record(b"\x00"), STRUCTURE + "timestamp"),
        (record(b"\x00" + WIDE[:-1] + b"\x80\x02\x01\x01\x00"), STRUCTURE + "timestamp"),
        (record(b"\x00\x00"), STRUCTURE + "offset delta"),
        (record(b"\x00\x00" + LONG + b"\x01\x01\x00"), STRUCTURE + "offset delta"),
        (record(b"\x00\x00\x82\x80\x80\x80\x10\x01\x01\x00"), STRUCTURE + "offset delta"),
        (record(b"\x00\x00\x82\x80\x80\x80\x80\x00\x01\x01\x00"), STRUCTURE + "offset delta"),
        (record(b"\x00\x00\x02" + LONG_NULL + b"\x01\x00"), STRUCTURE + "key"),
        (record(b"\x00\x00\x02" + WIDER_NULL + b"\x01\x00"), STRUCTURE + "key"),
        (record(b"\x00\x00\x02\x01" + LONG_NULL + b"\x00"), STRUCTURE + "value"),
        (record(b"\x00\x00\x02\x01" + WIDER + b"\x00"), STRUCTURE + "value"),
        (record(b"\x00\x00\x02\x01\x01" + LONG), STRUCTURE + "number of headers"),
        (record(b"\x00\x00\x02\x01\x01" + WIDER), STRUCTURE + "number of headers"),
        (record(b"\x00\x00\x02\x01\x01\x02" + LONG + b"\x01"), STRUCTURE + "header key"),
        (record(b"\x00\x00\x02\x01\x01\x02" + WIDER + b"\x01"), STRUCTURE + "header key"),
        (record(b"\x00\x00\x02\x01\x01\x02\x00" + LONG_NULL), STRUCTURE + "header value"),
        (record(b"\x00\x00\x02\x01\x01\x02\x00" + WIDER_NULL), STRUCTURE + "header value"),
        (record(b"\x00\x00\x00\x01\x01\x00"), "The records' offset deltas are not 0, 1, 2, ..."),
        (record(b"\x00\x00\x04\x01\x01\x00"), "The records' offset deltas are not 0, 1, 2, ..."),
        (record(b"\x00\x00\x02\x08\x01\x00"), STRUCTURE + "key"),
        (record(b"\x00\x00\x02" + LONG), STRUCTURE + "key"),
        (record(b"\x00\x00\x02\x01\x08\x00"), STRUCTURE + "value"),
        (record(b"\x00\x00\x02\x01\x01"), STRUCTURE + "number of headers"),
        (record(b"\x00\x00\x02\x01\x01\x03"), "Found invalid number of record headers -2"),
        (
            record(b"\x00\x00\x02\x01\x01\x08\x00\x01"),
            TOO_MANY,
        ),
        (record(b"\x00\x00\x02\x01\x01\x02\x01\x00"), "Invalid negative header key size -1"),
        (record(b"\x00\x00\x02\x01\x01\x02\x06\x00"), STRUCTURE + "header key"),
        (
            record(b"\x00\x00\x02\x01\x01\x02\x02\xff\x01"),
            "A record has a header key that is not UTF-8",
        ),
        (record(b"\x00\x00\x02\x01\x01\x02\x00\x06\x00"), STRUCTURE + "header value"),
        (
            record(b"\x00\x00\x02\x01\x01\x00\x00\x00"),
            "Invalid record size: expected to read 8 bytes in record payload, but instead read 6",
        ),
    ],
)
def test_both_implementations_report_the_fault_and_its_record(second, text):
    body = GOOD + second
    message = f"{text} (record 1 of the batch)"
    assert find_fault(body, 2) == message
    assert refusal(encode_batch(values(b"", b""), body=body)) == (87, message)


def test_bytes_after_the_last_record_belong_to_no_record():
    message = "Incorrect declared batch size, records still remaining in file"
    assert find_fault(GOOD + b"\x00", 1) == message
    assert refusal(encode_batch(values(b""), body=GOOD + b"\x00")) == (87, message)


@pytest.mark.thorough
@pytest.mark.parametrize("more", [0, 1])
def test_after_very_many_headers_no_part_is_named(more):
    headers = b"\x00\x01" * (HEADERS_MAX - 1 + more) + b"\x00\x02"
    second = record(b"\x00\x00\x02\x01\x01" + zigzag(HEADERS_MAX + more) + headers)
    message = f"{STRUCTURE}{'headers' if more else 'header value'} (record 1 of the batch)"
    assert refusal(encode_batch(values(b"", b""), body=GOOD + second)) == (87, message)
    longer = record(b"\x00\x00\x02\x01\x01" + zigzag(HEADERS_MAX + more)
                    + b"\x00\x01" * (HEADERS_MAX + more) + b"\x00")  # fmt: skip
    message = refusal(encode_batch(values(b"", b""), body=GOOD + longer))[1]
    assert message.startswith(f"{STRUCTURE}headers" if more else "Invalid record size: expected")


@pytest.mark.thorough
def test_a_fault_after_many_records_is_found():
    count = 100_000
    body = b"".join(encode_record(Record(0, None, None), at, 0) for at in range(count - 1))
    data = encode_batch([], body=body + record(b"\x00"), count=count, last_offset_delta=count - 1)
    assert refusal(data)[1] == f"{STRUCTURE}timestamp (record {count - 1} of the batch)"


def test_an_overlong_number_counts_before_a_later_fault():
    first = record(b"\x00\x00\x00" + LONG_NULL + b"\x01\x00")
    for second in (record(b"\x00\x00\x02\x01\x01\x00"), record(b"\x00")):
        message = refusal(encode_batch(values(b"", b""), body=first + second))
        assert message == (87, STRUCTURE + "key (record 0 of the batch)")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("last", "message"), [(b"\x00\x01", None), (b"\x00" + LONG_NULL, f"{STRUCTURE}headers")]
)
def test_all_of_very_many_headers_are_read(last, message):
    padded = b"\x81\x00"  # so that the record takes more bytes than it has to
    headers = zigzag(HEADERS_MAX + 2) + b"\x00\x01" * (HEADERS_MAX + 1) + last
    body = record(b"\x00\x00\x00" + padded + b"\x01" + headers)
    expected = message and f"{message} (record 0 of the batch)"
    assert find_overlong(body, 0, 0) == expected
    data = encode_batch(values(b""), body=body)
    if expected:
        assert refusal(data) == (87, expected)
    else:
        batch = read_batch(data, api_version=9, max_decompressed_bytes=1 << 20)
        assert len(batch.records.headers[0]) == HEADERS_MAX + 2


def test_valid_records_have_no_fault():
    assert find_fault(GOOD, 1) is None
    assert find_overlong(GOOD, 0, 0) is None
