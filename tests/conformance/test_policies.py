"""The gateways' policies: the second unwraps what the first wraps, and every batch is rewritten."""

import pytest

from tests.conformance.policies import WRAPPER, Unwraps, Wraps

RECORDS = [(b"k", b"v"), (None, b"v"), (b"k", b""), (b"k", None), (None, b"")]


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_a_record_is_wrapped_and_unwrapped(key, value):
    wrapped = Wraps().process_record(key, value, "t", 0, ())

    assert (wrapped.key, wrapped.value) != (key, value)
    assert tuple(Unwraps().process_record(*wrapped, "t", 0, ())) == (key, value)


@pytest.mark.parametrize(("key", "value"), RECORDS)
def test_a_record_that_was_not_wrapped_does_not_pass(key, value):
    with pytest.raises(ValueError, match="not wrapped"):
        Unwraps().process_record(key, value, "t", 0, ())


def test_a_value_that_begins_with_the_prefix_is_wrapped_and_unwrapped():
    wrapped = Wraps().process_record(b"k", WRAPPER, "t", 0, ())

    assert Unwraps().process_record(*wrapped, "t", 0, ()).value == WRAPPER
