import pytest

from tests.policies.schema_policy.fake_registry import FakeRegistry


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started
