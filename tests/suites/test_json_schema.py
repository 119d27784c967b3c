"""The official JSON Schema suite: all drafts, by both implementations, as both policies judge."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.policies.json_schema.documents import SchemaError
from tests.policies.json_schema.schemas import IMPLEMENTATIONS, compiled
from tests.suites.expected import unexplained
from tests.suites.json_schema import DRAFTS, KINDS, POLICIES, Case, fetch, groups

pytestmark = pytest.mark.suites
REQUIRED = 4836
"""The required cases of the version that is fetched."""


def judged(policy: str, implementation: str, kind: str) -> tuple[int, list[str]]:
    """Return how many cases there are, and the names of those that end otherwise."""
    count, failed = 0, []
    for draft, number in DRAFTS.items():
        for schema, cases in groups(draft, kind):
            count += len(cases)
            try:
                documents = POLICIES[policy](schema, number)
                check = compiled(documents, implementation, formats=kind == "format")
            except SchemaError as error:
                failed += [f"{case.name}: {error}" for case in cases]
                continue
            failed += [case.name for case in cases if fits(check, case) != case.is_valid]
    return count, failed


def fits(check, case: Case) -> bool:
    return not list(check.refused([case.text]))


@pytest.fixture(scope="session", autouse=True)
def fetched():
    fetch()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_case_has_the_result_of_the_suite(policy, implementation, kind):
    count, failed = judged(policy, implementation, kind)
    wrong, _ = unexplained("json_schema", implementation, failed)
    print(f"{policy}, {implementation}, {kind}: {count - len(failed)} of {count}")

    assert wrong == []
    assert count >= (REQUIRED if kind == "required" else 400)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_expected_difference_occurs(implementation):
    failed = [
        name
        for kind in KINDS
        for policy in POLICIES
        for name in judged(policy, implementation, kind)[1]
    ]
    _, idle = unexplained("json_schema", implementation, failed)

    assert idle == []


def test_the_suite_has_the_expected_number_of_cases():
    counts = Counter(
        {
            kind: sum(len(cases) for draft in DRAFTS for _, cases in groups(draft, kind))
            for kind in KINDS
        }
    )
    assert counts["required"] == REQUIRED
