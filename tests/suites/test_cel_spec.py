"""CEL's own conformance tests. Run by `make suites`; needs Go, which fetches them."""

import pytest

from tests.suites.cel_cases import outcome
from tests.suites.cel_spec import specification
from tests.suites.expected import compare, expected

pytestmark = pytest.mark.suites

_ALL = 2508
_PASSED_LEAST = 2147


def test_conditions_behave_as_specified():
    cases = list(specification().cases())
    assert len(cases) == _ALL
    found = {case.name: outcome(case, specification()) for case in cases}
    different = {name: text for name, text in found.items() if text}
    print(f"CEL: {len(found) - len(different)} of {len(found)}")
    assert compare(different, expected("cel-spec")) == ([], [])
    assert len(found) - len(different) >= _PASSED_LEAST
