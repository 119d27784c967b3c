"""The same tests for both implementations of record batches, if both are installed."""

from collections.abc import Iterator

import pytest

from penstock.native import VARIABLE
from penstock.records import implementation
from tests.conftest import NATIVE

# What compares the two needs both.
collect_ignore = [] if NATIVE else ["test_native.py", "test_native_stored.py"]


def chosen(wanted: str) -> implementation.Implementation:
    """Return the implementation for a value of PENSTOCK_NATIVE."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, wanted)
        return implementation.choose()


@pytest.fixture(
    scope="module", params=["0", "1"] if NATIVE else ["0"], ids={"0": "Python", "1": "native"}.get
)
def reading(request) -> Iterator[implementation.Implementation]:
    """The implementation that reads batches."""
    with pytest.MonkeyPatch.context() as patch:
        module = chosen(request.param)
        patch.setattr(implementation, "current", lambda: module)
        yield module
