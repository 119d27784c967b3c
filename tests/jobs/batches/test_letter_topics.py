"""Whose letters return, and what is said of the others."""

import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.batches.letter_topics import MORE, FoundLetters, LetterCounter, LetterTopics
from penstock.policy import Header
from tests.jobs.batches.letters import WRITERS, connect, share_group


def test_names_and_globs_of_topics():
    some = LetterTopics(("orders", "pay*"))
    assert [name in some for name in ("orders", "payments", "orders2", "pay")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert "anything" in LetterTopics()
    assert None in some  # a record of a file had no topic


def count(records, topics=("orders",), is_empty=False):
    counter = LetterCounter(LetterTopics(topics))
    for number, headers in enumerate(records):
        counter.add(headers, f"dead-0, offset {number}", is_empty=is_empty)
    return counter.found


def test_letters_are_counted_by_topic():
    records = [writer(topic, 0, 1, 5, None, b"v").headers
               for writer in WRITERS for topic in ("orders", "payments", "users", "users")]  # fmt: skip
    found = count(records)
    assert (found.returning, found.strangers) == (4, 0)
    assert found.stay == (
        "12 letters of other topics stay: users 8, payments 4 (--topic T returns those of T)"
    )
    both = FoundLetters.decode(found.encode()).plus(found)
    assert (both.returning, both.others) == (8, {"payments": 8, "users": 16})
    both.check("--from dead")
    assert count(records, ("orders", "payments", "users")).stay == ""


@pytest.mark.parametrize("headers", [
    [], [Header("own", b"1")], [Header("__dlq.id", b"1")], [Header("__dlq.errors.topic", b"")],
    [Header("__connect.errors.topic", None)], [Header("__streams.errors.topic", b"a b\n")],
    [Header("kafka_dlt-original-topic", b"\xff")], [Header("__connect.errors.topic", b"x" * 250)],
    [Header("__connect.errors.message", b"orders")],
])  # fmt: skip
def test_a_record_that_names_no_topic_is_not_a_letter(headers):
    found = count([connect("orders", 0, 1, 5, None, b"v").headers, headers])
    assert (found.returning, found.strangers) == (1, 1)
    with pytest.raises(
        ConfigurationError, match=r"--from d: 1 records are not .* dead-0, offset 1;"
    ):
        found.check("--from d")


def test_a_share_groups_letter_without_a_record_needs_a_topic_to_read():
    letters = [share_group("orders", 0, 1).headers, connect("orders", 0, 1, 5, None, None).headers]
    found = count(letters, is_empty=True)
    found.check("--from d")
    with pytest.raises(ConfigurationError, match="--from path:d: 1 letters of share groups have"):
        found.check("--from path:d", may_read=False)


def test_names_that_a_client_chooses_take_bounded_memory():
    records = [[Header("__connect.errors.topic", b"t%d" % number)] for number in range(10_050)]
    found = count(records)
    assert (len(found.others), found.others[MORE]) == (10_001, 50)
    assert len(found.stay) < 200
