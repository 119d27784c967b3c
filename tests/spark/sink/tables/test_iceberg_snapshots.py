"""What the snapshots of a table say about its micro-batches; `make spark-tables` reads real tables."""

import pytest

from penstock.spark.sink.tables.commit import TableCommit
from penstock.spark.sink.tables.iceberg_snapshots import Snapshot, ancestors


def written(number, parent, snapshot_id, attempt="first", writer="stream"):
    return Snapshot(snapshot_id, parent, "append", writer, number, attempt)


def test_a_table_without_snapshots():
    found = ancestors(None, [])
    assert found == ((),)
    assert found.newest is None
    assert found.last_number("stream") is None
    assert found.of(TableCommit("stream", 0, "first")) is None


def test_the_ancestors_of_the_current_snapshot_are_newest_first():
    """Snapshots of other branches, and those that were rolled back, are left out."""
    found = [
        written(2, 7, 5),
        written(0, None, 9),
        written(1, 9, 7),
        written(2, 7, 4, "rolled back"),
    ]
    snapshots = ancestors(5, found)
    assert [snapshot.id for snapshot in snapshots.newest_first] == [5, 7, 9]
    assert snapshots.newest == 5
    assert snapshots.ids == {5, 7, 9}
    assert snapshots.of(TableCommit("stream", 2, "rolled back")) is None


def test_snapshots_before_an_expired_snapshot_are_not_found():
    snapshots = ancestors(3, [written(0, None, 1), written(2, 2, 3)])
    assert [snapshot.id for snapshot in snapshots.newest_first] == [3]


def test_the_snapshot_of_a_commit_has_its_writer_number_and_attempt():
    snapshots = ancestors(2, [written(0, None, 1), written(1, 1, 2)])
    found = snapshots.of(TableCommit("stream", 1, "first"))
    assert found is not None
    assert found.id == 2
    for other in (("another", 1, "first"), ("stream", 0, "second"), ("stream", 2, "first")):
        assert snapshots.of(TableCommit(*other)) is None


@pytest.mark.parametrize(
    ("snapshot", "text"),
    [
        (written(4, None, 9), "snapshot 9, stream micro-batch 4"),
        (Snapshot(9, None, "append", "run"), "snapshot 9, run"),
        (Snapshot(9, None, "append"), "snapshot 9"),
    ],
)
def test_a_snapshot_is_named_in_errors(snapshot, text):
    assert str(snapshot) == text


def test_the_last_number_is_that_of_one_writer():
    found = [
        written(4, None, 1),
        written(9, 1, 2, writer="another"),
        Snapshot(3, 2, "append"),
        Snapshot(4, 3, "append", "run"),
    ]
    snapshots = ancestors(4, found)
    assert snapshots.last_number("stream") == 4
    assert snapshots.last_number("another") == 9
    assert snapshots.last_number("run") is None


def test_snapshots_that_only_remove_or_rewrite_records_are_no_writes():
    operations = ("append", "replace", "overwrite", "delete", "append")
    found = [Snapshot(number, number - 1 or None, operation)
             for number, operation in enumerate(operations, 1)]  # fmt: skip
    snapshots = ancestors(5, found)
    assert [snapshot.id for snapshot in snapshots.written_since(set())] == [5, 3, 1]
    assert [snapshot.id for snapshot in snapshots.written_since({1, 2}, start_id=5)] == [3]
    assert not list(snapshots.written_since({5}))


def test_the_ids_until_a_snapshot():
    snapshots = ancestors(3, [written(0, None, 1), written(1, 1, 2), written(2, 2, 3)])
    assert snapshots.ids_until(2) == {1, 2}
    assert snapshots.ids_until(9) == {1, 2, 3}


def test_a_micro_batch_of_two_snapshots():
    found = [
        written(0, None, 1),
        written(0, 1, 2, writer="another"),
        written(1, 2, 3),
        written(0, 3, 4, "second"),
    ]
    snapshots = ancestors(4, found)
    assert snapshots.first_twice("stream") == (found[3], found[0])
    assert snapshots.first_twice("stream", {1}) is None
    assert snapshots.first_twice("another") is None
    assert snapshots.writers == ["another", "stream"]
