"""The same tests for the extension that judges Avro payloads, and for its oracle."""

from collections.abc import Iterator

import pytest

from tests.policies.schema_policy.payloads.avro.implementations import IMPLEMENTATIONS, use


@pytest.fixture(scope="module", autouse=True, params=IMPLEMENTATIONS)
def implementation(request) -> Iterator[str]:
    """Schemas are compiled for one of them."""
    with pytest.MonkeyPatch.context() as patch:
        use(request.param, patch)
        yield request.param
