"""What policies share, until the engine takes it."""

import pytest

from penstock.policy import share_value, shared_value, sharing
from penstock.policy.sharing import NAME_MAX, SHARED_MAX, VALUE_MAX, put_shared, take_shared


@pytest.fixture(autouse=True)
def nothing_from_before(monkeypatch):
    monkeypatch.setattr(sharing, "_values", sharing.SharedStore())
    take_shared()


def test_a_value_is_there_at_once_and_is_taken_once():
    share_value("a/1", b"one")
    share_value("a/2", b"two")
    share_value("a/1", b"more")
    assert shared_value("a/1") == b"more"
    assert sorted(take_shared()) == [("a/1", b"more"), ("a/2", b"two")]
    assert take_shared() == ()
    assert shared_value("a/2") == b"two"


def test_values_of_other_workers_are_not_shared_again():
    put_shared([("a/1", b"one")])
    assert shared_value("a/1") == b"one"
    assert shared_value("a/2") is None
    assert take_shared() == ()


def test_names_and_values_are_bounded():
    for name, value in (
        ("a" * NAME_MAX + "b", b""),
        ("ä" * NAME_MAX, b""),
        ("a", bytes(VALUE_MAX + 1)),
    ):
        with pytest.raises(ValueError, match="cannot be shared"):
            share_value(name, value)
    assert take_shared() == ()


def test_the_values_used_last_are_kept():
    count = SHARED_MAX // VALUE_MAX + 2
    share_value("kept", b"x")
    for number in range(count):
        share_value(f"large/{number}", bytes(VALUE_MAX))
        assert shared_value("kept") == b"x"
    assert shared_value("large/0") is None
    assert shared_value(f"large/{count - 1}") is not None


def test_values_that_are_never_taken_are_bounded():
    for number in range(12):
        share_value(f"a/{number}", bytes(VALUE_MAX // 2))
    taken = take_shared()
    assert sum(len(value) for _, value in taken) <= SHARED_MAX
    assert taken[-1][0] == "a/11"
