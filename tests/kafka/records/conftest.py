"""The same tests for the extension that reads record batches, and for what reads them in Python."""

from collections.abc import Iterator

import pytest

from tests.kafka.records.implementations import IMPLEMENTATIONS, Implementation, use


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def reading(request) -> Iterator[Implementation]:
    """The implementation that reads batches."""
    with pytest.MonkeyPatch.context() as patch:
        yield use(request.param, patch)
