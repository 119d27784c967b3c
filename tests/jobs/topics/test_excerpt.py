"""Which offsets are read where there are more than may be."""

from itertools import pairwise

from penstock.jobs.topics.excerpt import Piece, excerpt
from penstock.kafka.cluster.ranges import OffsetRange

SMALL = OffsetRange("a", 0, 100, 150)
LARGE = OffsetRange("a", 1, 0, 1_000_000)


def test_everything_is_read_in_order_within_the_limit():
    empty = OffsetRange("a", 2, 7, 7)
    found = excerpt([LARGE, empty, SMALL], 1_000_050)
    assert found.pieces == (Piece(SMALL, True), Piece(LARGE, True))
    assert found.is_whole


def test_without_ranges_nothing_is_read():
    assert excerpt([], 10) == ((), True)


def test_pieces_are_spread_over_the_whole_of_a_partition():
    found = excerpt([LARGE], 100_000)
    assert not found.is_whole
    assert len(found.pieces) == 100
    starts = sorted(piece.range.start for piece in found.pieces)
    assert (starts[0], starts[-1]) == (0, 999_000)
    steps = {after - before for before, after in pairwise(starts)}
    assert min(steps) >= 10_000
    assert max(steps) <= 10_200
    assert all(piece.range.offsets == 1000 for piece in found.pieces)
    assert [piece.range.start for piece in found.pieces if piece.is_first] == [0]


def test_they_never_overlap():
    for most in (1000, 1500, 2000, 49_999, 999_999):
        ordered = sorted(piece.range for piece in excerpt([LARGE], most).pieces)
        for before, after in pairwise(ordered):
            assert before.end <= after.start


def test_each_partition_has_its_share_and_a_small_partition_at_least_a_piece():
    found = excerpt([SMALL, LARGE], 10_000)
    by_partition = [piece.range.partition for piece in found.pieces]
    assert by_partition.count(0) == 1
    assert by_partition.count(1) == 9
    assert Piece(SMALL, True) in found.pieces


def test_the_order_has_no_pattern_and_is_always_the_same():
    starts = [piece.range.start for piece in excerpt([LARGE], 100_000).pieces]
    assert starts != sorted(starts)
    assert excerpt([LARGE], 100_000) == excerpt([LARGE], 100_000)
    # The first tenth is from all of the time.
    assert len({start // 250_000 for start in starts[:10]}) == 4
