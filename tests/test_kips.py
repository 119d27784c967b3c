"""docs/interfaces.md states how Penstock implements the KIPs, and tests name its statements."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "interfaces.md"
STATEMENTS = 52


def stated() -> list[str]:
    """Return the statements of the document, in its order."""
    return re.findall(r"^\*\*(B\d+)\*\* ", DOCUMENT.read_text(), re.MULTILINE)


def cited() -> dict[str, set[str]]:
    """Return the tests that name each statement."""
    tests: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        text = file.read_text()
        # Reading all of the tests takes seconds.
        for node in ast.walk(ast.parse(text)) if "mark.kips" in text else ():
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
    assert stated() == [f"B{number}" for number in range(1, STATEMENTS + 1)]


def test_each_statement_has_a_test_and_no_test_names_another():
    assert set(cited()) == set(stated())


@pytest.mark.parametrize(
    ("code", "statements"),
    [
        ('@pytest.mark.kips("B1", "B2")\ndef test_a(): pass', ["B1", "B2"]),
        ('@pytest.mark.slow\n@pytest.mark.kips("B3")\nasync def test_b(): pass', ["B3"]),
        ("def test_c(): pass", []),
    ],
)
def test_statements_are_read_from_the_mark(code, statements):
    [test] = ast.parse(code).body
    assert statements_of(test) == statements
