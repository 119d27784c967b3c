"""docs/interfaces.md names tests, and tests name its statements: each says what the other does."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "interfaces.md"
STATEMENTS = 52


def listed() -> dict[str, set[str]]:
    """Return the tests that the document lists for each statement, as path::name."""
    tests: dict[str, set[str]] = {}
    for line in DOCUMENT.read_text().splitlines():
        if statement := re.match(r"\*\*(B\d+)\*\* ", line):
            assert statement[1] not in tests
            of_statement = tests.setdefault(statement[1], set())
        elif test := re.fullmatch(r"- \[(\w+)\]\(\.\./([\w/]+\.py)\)", line):
            of_statement.add(f"{test[2]}::{test[1]}")
    return tests


def cited() -> dict[str, set[str]]:
    """Return the tests that name each statement."""
    tests: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for statement in statements_of(node):
                name = f"{file.relative_to(ROOT)}::{node.name}"
                tests.setdefault(statement, set()).add(name)
    return tests


def statements_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the arguments of a test's `pytest.mark.kips`."""
    return [
        ast.literal_eval(argument)
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.kips"
        for argument in mark.args
    ]


def test_the_statements_are_numbered():
    assert list(listed()) == [f"B{number}" for number in range(1, STATEMENTS + 1)]


def test_each_statement_has_a_test():
    assert [statement for statement, tests in listed().items() if not tests] == []


def test_the_document_and_the_tests_agree():
    assert listed() == cited()
