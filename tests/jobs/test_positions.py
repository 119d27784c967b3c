"""Where a job continues: committed offsets, positions that outlive them, and lost offsets."""

from uuid import UUID

import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.positions import (
    KnownPositions,
    claims,
    done_before,
    from_positions,
    lost_place,
    placed,
    run_id,
    run_mark,
    was_kept,
)
from penstock.kafka.client.errors import TruncatedError
from penstock.kafka.client.positions import Claim, Position, PositionTask
from penstock.kafka.client.writing.place_records import PlaceRecords
from penstock.kafka.cluster.compacted_topic import LogRecord
from penstock.kafka.cluster.places import Places
from penstock.kafka.cluster.ranges import OffsetRange, Partition
from penstock.kafka.records.stored_batch import read_stored_batch

ID = UUID(int=7)
ONE, TWO = Partition("t", 0), Partition("t", 1)
RANGES = (OffsetRange("t", 0, 10, 100), OffsetRange("t", 1, 0, 50))
NOTHING = KnownPositions({}, {})
MARK = run_mark("split", ["clean", "dead"])


def places(*tasks):
    records = []
    for at, (task, offset) in enumerate(tasks):
        batch = PlaceRecords.batch(task, Position(offset, "counts", "run"))
        found = read_stored_batch(batch, max_decompressed_bytes=10_000).records
        records.append(LogRecord(at + 1, found.keys[0], found.values[0]))
    return Places("places", records)


def starts(known, *, goes_back=True, to_end=True):
    found = from_positions(RANGES, known, goes_back=goes_back, to_end=to_end)
    return [(range_.start, range_.end) for range_ in found]


def test_a_job_without_a_position_begins_at_its_start():
    assert starts(NOTHING) == [(10, 100), (0, 50)]


def test_with_committed_offsets_tasks_find_finished_offsets():
    known = KnownPositions({ONE: Position(5), TWO: Position(30)}, {})
    assert starts(known) == [(5, 100), (0, 50)]
    assert starts(known, goes_back=False) == [(10, 100), (0, 50)]


@pytest.mark.parametrize("goes_back", [True, False])
def test_a_job_continues_at_its_position(goes_back):
    known = KnownPositions({}, {ONE: Position(40), TWO: Position(50)})
    assert starts(known, goes_back=goes_back) == [(40, 100), (50, 50)]
    found = from_positions(RANGES, known, goes_back=goes_back, to_end=True)
    assert done_before(RANGES, found) == 30 + 50


def test_a_position_before_the_start():
    known = KnownPositions({}, {ONE: Position(4)})
    assert starts(known) == [(4, 100), (0, 50)]
    assert starts(known, goes_back=False) == [(10, 100), (0, 50)]
    found = from_positions(RANGES, known, goes_back=True, to_end=True)
    assert done_before(RANGES, found) == 0


def test_a_position_behind_a_range_that_ends_before_the_log():
    known = KnownPositions({}, {TWO: Position(80)})
    assert starts(known, to_end=False) == [(10, 100), (50, 50)]
    with pytest.raises(TruncatedError):
        starts(known)


def test_positions_belong_to_a_job_and_a_topic():
    found = places((PositionTask("j", "t", ID, 0), 4), (PositionTask("other", "t", ID, 1), 5),
                   (PositionTask("j", "t", UUID(int=8), 1), 6))  # fmt: skip
    assert placed("j", {"t": ID}, [ONE, TWO], found) == {ONE: Position(4, "", "run")}


def test_a_lost_position_is_an_error_with_advice():
    message = str(lost_place("j", "clean", ONE, places()))
    for part in ("clean: the first records of t-0", "places", "--again", "--group penstock-j",
                 "t:PARTITION"):  # fmt: skip
        assert part in message


def test_positions_of_the_topics_or_the_targets_show_that_positions_were_kept():
    of_another_topic = places((PositionTask("other", "u", ID, 1), 5))
    assert not was_kept(places(), ["t"], MARK)
    assert not was_kept(of_another_topic, ["t"], MARK)
    assert was_kept(of_another_topic, ["t"], "run")
    assert was_kept(places((PositionTask("other", "t", ID, 1), 5)), ["t"], MARK)


def test_claims_have_the_earlier_runs():
    run, earlier = run_id("split", ["a"]), run_id("split", ["a"])
    known = KnownPositions({ONE: Position(1, "", earlier)}, {TWO: Position(1, "", earlier)})
    assert claims("j", run, RANGES, known, again=True)[ONE] == Claim(run, {earlier}, 10, True)
    for kind in (known, KnownPositions({}, known.places)):
        with pytest.raises(ConfigurationError, match="--job j"):
            claims("j", run_id("redact", ["a"]), RANGES, kind)


@pytest.mark.parametrize("again", [False, True])
def test_the_first_commit_of_a_claim(again):
    claim = Claim("new", frozenset({"old"}), 10, again)
    assert claim.first(None) == Position(10)
    assert claim.first(Position(40, "counts", "old")) == Position(10 if again else 40)
    assert claim.first(Position(40, "counts", "new")) is None
