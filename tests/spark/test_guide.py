"""The blocks of docs/spark.md work as the page describes."""

import re
from pathlib import Path

import pytest

from penstock.spark import register
from tests.spark.conftest import NO_BAD, POLICIES

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"
RECORDS = [{"key": b"k", "value": value} for value in (b"good", b"bad1", b"good")]
# `redact` needs an interceptor, and the other functions would show its changes.
UNCHANGED = """
class Unchanged(Repair):
    def interceptor_topic_pattern(self): return "^$"
"""
PROPERTIES = {**NO_BAD, "produce.request.interceptors": "policies.Unchanged"}
pytestmark = pytest.mark.slow


@pytest.fixture
def blocks(configured, topic, produce, spark, kafka, tmp_path):
    """The blocks, with existing topics and a file; and the names that they use."""
    file = configured(PROPERTIES, POLICIES + UNCHANGED)
    [module] = file.parent.glob("policies_*.py")
    names = {
        name: topic(name) for name in ("orders", "orders-clean", "orders-dead", "orders-public")
    }
    produce(names["orders"], RECORDS)
    text = GUIDE.read_text().replace("/etc/penstock/penstock.properties", str(file))
    text = text.replace("/checkpoints", str(tmp_path))
    text = text.replace("kafka-1:9092", kafka.bootstrap_servers)
    text = text.replace('Path("report")', f'Path("{tmp_path / "report"}")')
    text = text.replace("repair_orders.RepairOrders", f"{module.stem}.RepairAll")
    for name, real in names.items():
        text = text.replace(f'"{name}"', f'"{real}"')
    return (
        re.findall(r"```python\n(.*?)```", text, re.DOTALL),
        names,
        {"spark": spark, "file": file},
    )


def test_the_source_and_the_sink(blocks, stored, capsys):
    (source, sink, *_), topics, names = blocks
    exec(source, names)
    assert "bad is not good" in capsys.readouterr().out
    exec(sink, names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    clean = [record[2] for record in stored(topics["orders-clean"], isolation="read_committed")]
    assert clean == [b"good"] * 4  # of the frame, and of the stream
    [dead] = stored(topics["orders-dead"], isolation="read_committed")
    assert dead[2] == b"bad1"


def test_the_functions(blocks, stored):
    (_, _, functions, frames, *_), topics, names = blocks
    exec(functions, names)
    assert (names["report"].judged, names["report"].refused) == (3, 1)
    assert names["report"].reasons[0].message == "bad is not good"
    assert (names["done"].accepted, names["back"].returned) == (2, 1)
    clean = [record[2] for record in stored(topics["orders-clean"], isolation="read_committed")]
    assert clean == [b"good", b"good", b"good1"]

    register(names["spark"])
    names["frame"] = (
        names["spark"].read.format("penstock").option("plan", names["file"])
        .option("subscribe", topics["orders"]).load().drop("verdict")
    )  # fmt: skip
    exec(frames, names)
    assert (names["accepted"].count(), names["rejected"].count()) == (2, 1)
    assert names["seen"].get["refused"] == 1
