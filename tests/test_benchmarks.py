"""The benchmarks, which no other test runs: their imports exist, and what they imitate."""

import ast
import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.console import gateway
from benchmarks.metrics import request_of

from penstock.gateway.observing.console.console import Console
from penstock.gateway.observing.metrics.counts import GatewayCounts

ROOT = Path(__file__).parents[1]

BENCHMARKS = sorted((ROOT / "benchmarks").rglob("*.py"))
OURS = ("penstock", "tests", "benchmarks")


def test_benchmarks_are_found():
    assert len(BENCHMARKS) > 10


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_the_imports_of_a_benchmark_exist(path):
    if "spark" in path.parts:
        pytest.importorskip("pyspark")
    for statement in ast.walk(ast.parse(path.read_text())):
        if not isinstance(statement, ast.ImportFrom) or statement.module is None:
            continue
        if statement.module.partition(".")[0] in OURS:
            module = importlib.import_module(statement.module)
            missing = [name.name for name in statement.names if not hasattr(module, name.name)]
            for name in missing:
                importlib.import_module(f"{statement.module}.{name}")


def test_the_gateway_of_the_benchmark_of_metrics_forwards_a_request():
    counts = GatewayCounts(records_max=1000)
    request_of(counts)()
    request_of(None)()
    assert (counts.client_bytes, counts.broker_bytes) == (323, 68)


async def test_the_gateway_of_the_benchmark_of_the_console_is_shown(tmp_path):
    counts = GatewayCounts(records_max=1000)
    console = Console(gateway(tmp_path), counts, SimpleNamespace(brokers={}))
    assert "10000" in await console._state()
