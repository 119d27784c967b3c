"""Names and ids of topics."""

from uuid import UUID

import pytest

from penstock.kafka.wire.names import NO_ID, is_another, is_topic_name

FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a" * 249])
def test_names_that_a_broker_takes(name):
    assert is_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "ä", "a/b", "a\n"])
def test_names_that_no_broker_takes(name):
    assert not is_topic_name(name)


@pytest.mark.parametrize(
    ("before", "now", "is_expected"),
    [
        (FIRST, FIRST, False),
        (FIRST, SECOND, True),
        (NO_ID, SECOND, False),
        (FIRST, NO_ID, False),
        (NO_ID, NO_ID, False),
    ],
)
def test_a_topic_with_another_id_was_created_again(before, now, is_expected):
    assert is_another(before, now) is is_expected
