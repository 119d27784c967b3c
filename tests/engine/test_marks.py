"""The headers of marked records."""

from penstock.engine.modes.marks import PREFIX, has_marks, marks_of
from penstock.engine.verdict import RecordError
from penstock.kafka.records.batch import read_batch
from penstock.policy import Header, Record
from tests.kafka.records.encoding import encode_batch


def test_a_mark_names_the_policy_and_the_reason():
    headers = marks_of([RecordError(3, "no \ud800", "a.V")], 87)[3]
    assert [name for name, _ in headers] == [
        "__mark.errors.policy",
        "__mark.errors.code",
        "__mark.errors.message",
    ]
    assert [value for _, value in headers] == [b"a.V", b"87", b"no ?"]
    assert marks_of([RecordError(3, None, "a.V")], 44)[3][2][1] == b""


def test_each_record_is_marked_with_its_own_policy_and_text():
    errors = [RecordError(0, "x", "a.V"), RecordError(4, "x", "a.W"), RecordError(5, "y", "a.V")]
    found = {
        index: [value for _, value in headers] for index, headers in marks_of(errors, 87).items()
    }
    assert found == {
        0: [b"a.V", b"87", b"x"],
        4: [b"a.W", b"87", b"x"],
        5: [b"a.V", b"87", b"y"],
    }


def test_marks_of_other_writers_are_found(record_batches):
    for name, expected in ((f"{PREFIX}errors.code", True), ("mark.errors.code", False)):
        data = encode_batch([Record(1, None, b"v", (Header(name, None),))])
        records = read_batch(data, api_version=9, max_decompressed_bytes=1000).records
        assert has_marks(records) is expected
