"""The same tests for both implementations that judge Avro payloads, if both are installed."""

from collections.abc import Iterator

import pytest

from penstock.native import VARIABLE
from tests.conftest import NATIVE


@pytest.fixture(
    scope="module",
    autouse=True,
    params=["0", "1"] if NATIVE else ["0"],
    ids={"0": "Python", "1": "native"}.get,
)
def implementation(request) -> Iterator[str]:
    """Schemas are compiled for one of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, request.param)
        yield request.param
