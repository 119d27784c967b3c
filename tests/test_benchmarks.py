"""The benchmarks, which no other test runs: their imports exist."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
OURS = ("penstock", "tests", "benchmarks")


def test_benchmarks_are_found():
    assert len(BENCHMARKS) > 10


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_the_imports_of_a_benchmark_exist(path):
    for statement in ast.walk(ast.parse(path.read_text())):
        if not isinstance(statement, ast.ImportFrom) or statement.module is None:
            continue
        if statement.module.partition(".")[0] in OURS:
            module = importlib.import_module(statement.module)
            missing = [name.name for name in statement.names if not hasattr(module, name.name)]
            for name in missing:
                importlib.import_module(f"{statement.module}.{name}")
