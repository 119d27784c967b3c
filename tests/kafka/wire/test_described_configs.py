"""Configs are inserted into a response of the broker."""

import dataclasses
import io
import tracemalloc

import pytest
from kio.serial import entity_writer

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import varint
from penstock.kafka.wire.requests.described_configs import read_requested, with_added
from penstock.kafka.wire.requests.produce import ENTRIES_MAX
from penstock.kafka.wire.slices import finish
from tests.kafka.wire.config_answers import config, request, response
from tests.kafka.wire.entities import in_slices, written
from tests.raw import parse_response

VERSIONS = [1, 2, 3, 4]
OURS = ("penstock.a", "penstock.b")


def read(given):
    return read_requested(given.frame, given.body_at, given.version, OURS)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_requested_configs_are_read(version):
    given = request(
        version,
        (2, "t", None),
        (2, "t", ("other", "penstock.b")),
        (4, "0", None),
        (2, "u", ("other",)),
        (2, "v", ()),
        (2, "t", ("penstock.b", "penstock.a", "penstock.b")),
        synonyms=True,
        documentation=True,
    )
    found = finish(read(given))
    assert {name: list(keys) for name, keys in found.keys.items()} == {
        "t": [OURS, ("penstock.b",), OURS],
        "u": [()],
        "v": [OURS],
    }
    assert found.include_synonyms
    assert found.include_documentation == (version >= 3)
    assert not finish(read(request(version, synonyms=False))).include_synonyms


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unreadable_request_is_an_error(version):
    given = request(version, (2, "t", ("a",)))
    for end in range(given.body_at, len(given.frame)):
        given.frame = given.frame[:end]
        with pytest.raises(WireError):
            finish(read(given))


def test_a_request_of_many_entries_is_read_in_slices_up_to_a_limit():
    given = request(4, *[(2, "t", None)] * (ENTRIES_MAX - 1))
    _, slices = in_slices(read(given))
    assert 40 <= slices <= 80
    with pytest.raises(WireError, match="too many"):
        finish(read(request(4, (2, "t", ("k",) * ENTRIES_MAX))))


def test_tagged_fields_of_a_request_are_entries():
    given = request(4, *[(2, "t", None)] * 100)
    end = given.frame.index(b"\x02\x02t\x00\x00") + 4
    resource, tags = given.frame[end - 4 : end], varint(1000) + b"\x7f\x00" * 1000
    for count, has_a_bound in ((10, False), (60, True)):
        body = varint(count + 1) + (resource + tags) * count + b"\0\0\0"
        steps = read_requested(given.frame[: given.body_at] + body, given.body_at, 4, OURS)
        if has_a_bound:
            with pytest.raises(WireError, match="too many"):
                finish(steps)
        else:
            assert len(finish(steps).keys["t"]) == count


def content(*configs) -> bytes:
    buffer = io.BytesIO()
    for described in configs:
        entity_writer(type(described))(buffer, described)
    return buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_configs_are_added_to_topics_and_all_else_stays_unchanged(version):
    same = tuple(f"c{number}" for number in range(130))
    given = response(
        version,
        (2, "t", 0, same),
        (4, "0", 0, same),
        (2, "t", 0, same),
        (2, "none", 0, ("c",)),
        (2, "empty", 0, ()),
        (2, "wrong", 3, ()),
        (2, "t", 0, same[:-1]),
    )
    seen = []

    def added(topic):
        seen.append(topic)
        ours = [config(version, name) for name in (OURS if topic != "none" else ())]
        return len(ours), content(*ours)

    result = b"".join(finish(with_added(written(given), version, added)))
    assert seen == ["t", "t", "none", "empty", "t"]
    expected = tuple(
        dataclasses.replace(
            result, configs=(*result.configs, *(config(version, name) for name in OURS))
        )
        if result.resource_name in {"t", "empty"}
        else result
        for result in given.results
    )
    assert parse_response(result, 32, version) == dataclasses.replace(given, results=expected)
    assert b"".join(finish(with_added(written(given), version, lambda _: (0, b"")))) == written(
        given
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_response_is_an_error(version):
    frame = written(response(version, (2, "t", 0, ("a", "b"))))
    for end in range(20, len(frame) - (version >= 4)):
        with pytest.raises(WireError):
            finish(with_added(frame[:end], version, lambda _: (0, b"")))


def test_a_topic_listed_5000_times_is_processed_in_slices_with_little_memory():
    once = written(response(4, (2, "t", 0, [f"c{number}" for number in range(40)])))
    head, result = once[8:13], once[14:-1]
    count = 5000
    body = b"\0\0\0\7" + head + varint(count + 1) + result * count + b"\0"
    frame = len(body).to_bytes(4, "big") + body
    ours = content(*[config(4, f"penstock.{number}") for number in range(200)])
    assert len(ours) > 4096
    tracemalloc.start()
    buffers, slices = in_slices(with_added(frame, 4, lambda _: (200, ours)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 40 <= slices <= 80
    assert sum(map(len, buffers)) > len(frame) + count * len(ours)
    assert most < 5000 * 3000


def test_configs_added_to_a_topic_repeatedly_are_not_copied():
    count = 5000
    result = bytes(2) + b"\x00\x02\x02t\x01\x00"  # without configs of the broker
    body = bytes(4) + b"\0" + bytes(4) + varint(count + 1) + result * count + b"\0"
    frame = len(body).to_bytes(4, "big") + body
    ours = content(config(4, "x" * 3500))
    assert len(ours) < 4096
    tracemalloc.start()
    buffers, _ = in_slices(with_added(frame, 4, lambda _: (1, ours)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, buffers)) > count * len(ours)
    assert most < count * 600


def test_different_configs_are_read_in_slices():
    names = [[f"c{number}-{of}" for number in range(40)] for of in range(100)]
    frame = written(response(4, *[(2, "t", 0, name) for name in names]))
    _, slices = in_slices(with_added(frame, 4, lambda _: (0, b"")))
    assert 4 <= slices <= 16


def test_synonyms_are_read_in_slices():
    synonym = b"\x02a\x01\x01\x00"
    config = b"\x02a\x01\0\x01\0" + varint(20_001) + synonym * 20_000 + b"\x01\x00\x00"
    body = bytes(4) + b"\0" + bytes(4) + b"\x02" + bytes(3) + b"\x02\x02t\x02" + config + b"\0\0"
    frame = len(body).to_bytes(4, "big") + body
    (buffer,), slices = in_slices(with_added(frame, 4, lambda _: (0, b"")))
    assert buffer == frame
    assert 10 <= slices <= 25
