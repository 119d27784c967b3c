"""Records of files in the order of topic, partition and offset, however many there are."""

import tempfile

import pytest

from penstock.jobs.rows.ordered_rows import in_order
from penstock.jobs.rows.records import RecordRow
from penstock.policy import Header


def row(topic, partition, offset, number=0):
    headers = (Header("a", None), Header("", b"\xff"))[: number % 3]
    return RecordRow(topic, partition, offset, number, None, b"%d" % number, None, headers)


@pytest.mark.parametrize("bytes_held", [1, 5000, 2**30])
def test_records_are_sorted_and_those_of_one_place_stay_as_they_came(chance, bytes_held):
    rows = [
        row(chance.choice(["t", "u", None]), chance.choice([0, 1, None]), chance.randrange(20), n)
        for n in range(300)
    ]
    found = list(in_order(iter(rows), bytes_held=bytes_held))
    assert found == sorted(
        rows, key=lambda row: (row.topic or "", row.known_partition, row.known_offset)
    )
    assert all(isinstance(header, Header) for some in found for header in some.headers)


def test_an_unknown_place_comes_first():
    rows = [row("t", 0, 0, 1), row("t", 0, None, 2), row("t", None, 5, 3), row(None, 7, 7, 4)]
    assert [found.timestamp for found in in_order(rows)] == [4, 3, 2, 1]


def test_few_records_need_no_file(monkeypatch):
    monkeypatch.delattr(tempfile, "TemporaryFile")
    assert list(in_order([row("t", 0, 1), row("t", 0, 0)])) == [row("t", 0, 0), row("t", 0, 1)]


def test_a_full_disk_is_an_error_of_the_file_system(monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match="No space left"):
        list(in_order([row("t", 0, 1), row("t", 0, 0)], bytes_held=1))
