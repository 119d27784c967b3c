"""Both implementations, for tests that ask for one."""

import pytest

from tests.policies.json_schema.schemas import IMPLEMENTATIONS


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request):
    return request.param
