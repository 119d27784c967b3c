"""Data contracts of others: those within the tests of datacontract-cli."""

import ast
import re
import textwrap

import pytest

from penstock.policies import DataContract
from tests.suites.expected import compare, expected
from tests.suites.fetched import sdist

pytestmark = pytest.mark.suites
SUM = "ff04bce99117275e8056f75208374ef99e0c39f56790247fc06bdfdd6abb78b4"
CONTRACT = re.compile(r"^\s*kind: DataContract", re.MULTILINE)


def contracts():
    """Yield each text of the tests that is a contract, by its file and its number there."""
    folder = sdist("datacontract_cli", "1.2.8", SUM) / "tests"
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        parts = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in node.values
        }
        number = 0
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in parts and CONTRACT.search(text):
                number += 1
                yield f"{file.stem}/{number}", textwrap.dedent(text)


def test_each_contract_is_taken(tmp_path):
    failed, count = {}, 0
    for name, text in contracts():
        count += 1
        (tmp_path / "c.yaml").write_text(text)
        try:
            DataContract().configure({"contract": str(tmp_path / "c.yaml")})
        except ValueError as error:
            failed[name] = str(error).replace(f"{tmp_path}/", "")
    print(f"\n{count} contracts, {len(failed)} not taken")
    unknown, unused = compare(failed, expected("contracts"))
    assert unknown == []
    assert unused == []
    assert count > 100
