"""ShareFetch responses are streamed: every byte except addresses stays, and none is held."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import skip_tags, varint
from penstock.kafka.wire.requests import share_fetch
from penstock.kafka.wire.requests.share_fetch import ShareFetchRewriter, _instead_of
from penstock.kafka.wire.slices import finish
from tests.kafka.wire.entities import in_slices, written
from tests.kafka.wire.share_fetches import response, small_partitions, without_filler
from tests.raw import parse_response

VERSIONS = [1, 2]


def passed(frame: bytes, *sizes: int) -> bytes:
    """Stream a frame in pieces of these sizes; the last size is repeated."""
    rewriter, result, sizes = ShareFetchRewriter(), b"", list(sizes)
    position = 0
    while position < len(frame):
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        piece = frame[position : position + size]
        sent = b"".join(finish(rewriter.rewrite(piece)))
        assert len(sent) == len(piece)
        result += sent
        position += size
    return result


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [8, 9, 17, 100, 10**6])
def test_addresses_are_removed_and_all_else_stays_unchanged(version, size):
    entity = response(version, records=b"r" * 200)
    result = passed(written(entity), 8, size)
    assert b"broker-" not in result
    found = parse_response(without_filler(result), 78, version)
    assert found == dataclasses.replace(entity, node_endpoints=())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_a_response_without_addresses_stays_unchanged(version, size):
    frame = written(dataclasses.replace(response(version, records=b"abc"), node_endpoints=()))
    assert passed(frame, 8, size) == frame


@given(st.lists(st.integers(1, 300), max_size=8), st.binary(max_size=300), st.integers(0, 5))
def test_the_response_may_arrive_in_any_pieces(sizes, records, acquired):
    entity = response(2, records=records)
    first = entity.responses[0].partitions[0].acquired_records[0]
    topics = tuple(
        dataclasses.replace(
            topic,
            partitions=tuple(
                dataclasses.replace(partition, acquired_records=(first,) * acquired)
                for partition in topic.partitions
            ),
        )
        for topic in entity.responses
    )
    frame = written(dataclasses.replace(entity, responses=topics))
    assert passed(frame, 8, *sizes, 1) == passed(frame, len(frame))
    assert b"broker-" not in passed(frame, len(frame))


def test_large_records_are_not_held():
    frame = written(response(2, records=bytes(2**22)))
    rewriter, most = ShareFetchRewriter(), 0
    for start in range(0, len(frame), 2**16):
        finish(rewriter.rewrite(frame[start : start + 2**16]))
        most = max(most, len(rewriter._carry))
    assert most < 100


def test_many_partitions_are_read_in_slices():
    frame = small_partitions(10_000)
    buffers, slices = in_slices(ShareFetchRewriter().rewrite(frame))
    assert b"".join(buffers) == frame
    assert 20 <= slices <= 70


def longest_any(monkeypatch, count, last):
    """Read acquired records; return the maximum number read together."""
    looked_at = []

    def any_of(given):
        looked_at.append(len(given))
        return any(given)

    monkeypatch.setattr(share_fetch, "any", any_of, raising=False)
    partition = bytes(6) + b"\x00" + bytes(2) + b"\x00" + bytes(8) + b"\x00\x00"
    acquired = varint(count + 1) + bytes(19) * (count - 1) + bytes(18) + last + b"\x00"
    topic = bytes(16) + b"\x02" + partition + acquired + b"\x00"
    body = bytes(4) + b"\x00" + bytes(6) + b"\x00" + bytes(4) + b"\x02" + topic + b"\x01\x00"
    frame = len(body).to_bytes(4, "big") + body
    assert passed(frame, len(frame)) == frame
    return max(looked_at), len(looked_at)


@pytest.mark.parametrize("last", [b"\x00", b"\x01\x7f\x00"])
def test_acquired_records_with_a_tagged_field_are_not_read_repeatedly(monkeypatch, last):
    most, times = longest_any(monkeypatch, 10_000, last)
    assert most * times < 100_000


def test_many_acquired_records_are_a_single_step():
    partition = bytes(6) + b"\x00" + bytes(2) + b"\x00" + bytes(8) + b"\x00\x00"
    acquired = varint(10_001) + bytes(19) * 10_000 + b"\x00"
    topic = bytes(16) + b"\x02" + partition + acquired + b"\x00"
    body = bytes(4) + b"\x00" + bytes(6) + b"\x00" + bytes(4) + b"\x02" + topic + b"\x01\x00"
    frame = len(body).to_bytes(4, "big") + body
    buffers, slices = in_slices(ShareFetchRewriter().rewrite(frame))
    assert (b"".join(buffers), slices) == (frame, 1)


def test_a_truncated_response_is_an_error():
    frame = written(response(2, records=b"abc"))
    body = frame[4:60]
    with pytest.raises(WireError):
        passed(len(body).to_bytes(4, "big") + body, 60)


def test_a_part_that_never_ends_is_an_error_and_is_not_held():
    endless = varint(2**30)
    body = bytes(4) + b"\x00" + bytes(6) + endless + bytes(10**6)
    with pytest.raises(WireError):
        passed((2**30).to_bytes(4, "big") + body, 2**16)


def test_removed_addresses_of_any_size_can_be_filled():
    for size in (*range(5, 400), *range(16380, 16400), 2**21, 2**21 + 1, 2**21 + 5):
        head = _instead_of(size)
        filler = head + bytes(size - len(head))
        assert len(filler) == size
        assert filler[0] == 1, size
        assert skip_tags(filler, 1) == size


def test_bytes_too_short_for_an_address_are_an_error():
    with pytest.raises(WireError):
        _instead_of(3)
