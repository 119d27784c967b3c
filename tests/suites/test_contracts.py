"""Data contracts of others: those within the tests of datacontract-cli.

Penstock reads each, and so does the model of the standard's authors (`contract_readers.py`).
"""

import ast
import re
import textwrap

import pytest

from penstock.policies import DataContract
from tests.suites.contract_readers import seen_by_model, seen_by_penstock
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


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """For each contract: its text, its file, and why Penstock does not take it."""
    folder = tmp_path_factory.mktemp("contracts")
    found = {}
    for number, (name, text) in enumerate(contracts()):
        file = folder / f"{number}.yaml"
        file.write_text(text)
        reason = ""
        try:
            DataContract().configure({"contract": str(file)})
        except ValueError as error:
            reason = str(error).replace(f"{folder}/", "")
        found[name] = text, file, reason
    return found


def test_each_contract_is_taken(taken):
    failed = {name: reason for name, (_, _, reason) in taken.items() if reason}
    print(f"\n{len(taken)} contracts, {len(failed)} not taken")
    unknown, unused = compare(failed, expected("contracts"))
    assert unknown == []
    assert unused == []
    assert len(taken) > 100


def test_a_second_reader_sees_the_same_in_each_contract(taken):
    """Why Penstock refuses contracts that the model takes stands among those that are not taken."""
    different, both, only_model = {}, 0, 0
    for name, (text, file, reason) in taken.items():
        try:
            of_model = seen_by_model(text)
        except ValueError as error:
            if not reason:
                different[name] = f"the model: {error}"
            continue
        only_model += bool(reason)
        if reason:
            continue
        both += 1
        ours = seen_by_penstock(file)
        seen = [
            *(f"only Penstock: {line}" for line in ours - of_model),
            *(f"only the model: {line}" for line in of_model - ours),
        ]
        if seen:
            different[name] = "; ".join(seen)
    print(f"\n{both} contracts taken by both readers, {only_model} only by the model; "
          f"{len(different)} differ")  # fmt: skip
    unknown, unused = compare(different, expected("contract-readers"))
    assert unknown == []
    assert unused == []
    assert both > 70
