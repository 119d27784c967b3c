"""The headers of a dead letter."""

import pytest

from penstock.engine.modes.dead_letters import (
    Attempts,
    LetterHeaders,
    Origin,
    PartialOrigin,
    is_dead_letter,
    own_headers,
    read_origin,
    read_replays,
)
from penstock.engine.verdict import failed, refused_record
from penstock.policy import Header

HERE = Origin("here", 1, 2, 3, 4)


def headers(**values):
    names = {"topic": "__dlq.errors.topic", "partition": "__dlq.errors.partition",
             "offset": "__dlq.errors.offset", "timestamp": "__penstock.timestamp",
             "replays": "__penstock.replays"}  # fmt: skip
    return [Header("own", b"9")] + [Header(names[key], value) for key, value in values.items()]


def test_an_incomplete_origin_is_read():
    assert read_origin([], HERE) == HERE
    assert read_origin([Header("own", b"1")], HERE) == HERE
    whole = headers(topic=b"t", partition=b"5", offset=b" 6 ", timestamp=b"-7", replays=b"+8")
    assert read_origin(whole, HERE) == Origin("t", 5, 6, -7, 8)
    assert read_origin(headers(partition=b"5"), HERE) == HERE._replace(partition=5)
    assert read_origin(headers(topic=b"\xff"), HERE).topic == "\ufffd"


@pytest.mark.parametrize(
    "number", [None, b"", b"x", b"1.5", b"1e3", b"0x1", b"1_0", "\u0661".encode(), b"9" * 40]
)
def test_invalid_numbers_are_ignored(number):
    found = read_origin(
        headers(partition=number, offset=number, timestamp=number, replays=number), HERE
    )
    assert found == HERE
    assert read_replays(headers(replays=number)) == 0


def test_numbers_have_limits():
    most = headers(partition=b"2147483647", offset=b"9223372036854775807")
    assert read_origin(most, HERE)[1:3] == (2**31 - 1, 2**63 - 1)
    more = headers(partition=b"2147483648", offset=b"9223372036854775808", replays=b"2147483648")
    assert read_origin(more, HERE) == HERE
    assert read_origin(headers(partition=b"-1"), HERE) == HERE
    below = headers(replays=b"-2147483648")
    assert (read_origin(below, HERE).replays, read_replays(below)) == (0, 0)


def test_the_last_header_of_a_name_counts():
    twice = [*headers(topic=b"one", replays=b"1"), *headers(topic=b"two", replays=b"2")]
    assert read_origin(twice, HERE) == HERE._replace(topic="two", replays=2)
    assert read_replays(twice) == 2


def test_a_dead_letter_names_its_original_topic():
    assert is_dead_letter(headers(topic=b"t"))
    assert not is_dead_letter(headers(topic=None))
    assert not is_dead_letter(headers(replays=b"1"))
    assert not is_dead_letter([])
    assert not is_dead_letter([*headers(topic=b"t"), *headers(topic=None)])


def test_places_of_files_that_are_not_known():
    unknown, why = PartialOrigin(None, None, None, None), refused_record("why", "p")
    assert read_origin(headers(partition=b"5"), unknown) == unknown._replace(partition=5)
    written = dict(LetterHeaders().of_record(why, [], unknown))
    names = ("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset",
             "__penstock.timestamp")  # fmt: skip
    assert [written[name] for name in names] == [None] * 4


def test_own_headers_are_those_of_others():
    more = [Header("__dlq.errors.whatever", b""), Header("__penstocks", b""), Header("__dlq", b"")]
    assert own_headers([*headers(topic=b"t", replays=b"1"), *more]) == (
        ("own", b"9"),
        ("__penstocks", b""),
        ("__dlq", b""),
    )


def test_each_letter_has_its_own_place_and_reason():
    written = LetterHeaders()
    for count in range(3000):  # more than are kept
        origin = Origin(f"täg{count}", count, count + 1, count + 2)
        verdict = refused_record(f"reason {count % 1500}", "Policy")
        found = dict(written.headers(verdict, origin, replays=count % 3))
        assert found["__dlq.errors.topic"] == f"täg{count}".encode()
        assert found["__dlq.errors.message"] == found["__penstock.message"]
        assert found["__penstock.message"] == b"reason %d" % (count % 1500)
        assert found["__penstock.replays"] == b"%d" % (count % 3)
    without = dict(written.headers(refused_record(None, "Policy"), HERE, replays=0))
    assert without["__penstock.message"] == b""
    broken = dict(written.headers(failed("Policy", "raised"), HERE, replays=0))
    assert (broken["__penstock.outcome"], broken["__penstock.code"]) == (b"failed", b"-1")


@pytest.mark.parametrize(
    ("place", "maximum", "is_parked"),
    [
        ("orders.dead", 3, False),
        ("orders.dead.parked", 6, True),
        ("orders.dead.parked.parked", 9, True),
        ("/letters.parked/", 6, True),
        ("orders.parked.dead", 3, False),
    ],
)
def test_parked_letters_have_as_many_attempts_again(place, maximum, is_parked):
    assert Attempts.of(place, 3) == Attempts(maximum, is_parked)
