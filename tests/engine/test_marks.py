"""The headers of marked records."""

from penstock.engine.marks import PREFIX, has_marks, mark
from penstock.engine.verdict import RecordError
from penstock.policy import Header, Record
from penstock.records.batch import read_batch
from tests.records.encoding import encode_batch


def test_a_mark_says_which_policy_and_why():
    headers = mark(RecordError(3, "no \ud800", "a.V"), 87)
    assert [name for name, _ in headers] == [
        "__mark.errors.policy",
        "__mark.errors.code",
        "__mark.errors.message",
    ]
    assert [value for _, value in headers] == [b"a.V", b"87", b"no ?"]
    assert mark(RecordError(3, None, "a.V"), 44)[2][1] == b""


def test_marks_are_found_whoever_wrote_them(record_batches):
    for name, expected in ((f"{PREFIX}errors.code", True), ("mark.errors.code", False)):
        data = encode_batch([Record(1, None, b"v", (Header(name, None),))])
        records = read_batch(data, api_version=9, max_decompressed_bytes=1000).records
        assert has_marks(records) is expected
