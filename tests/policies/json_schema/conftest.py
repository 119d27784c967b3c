"""Both implementations, for tests that use `implementation`."""

import pytest

from tests.policies.json_schema.schemas import IMPLEMENTATIONS


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request):
    return request.param
