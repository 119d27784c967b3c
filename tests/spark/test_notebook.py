"""`examples/notebook.ipynb` works: its cells are run, in order, on a real Kafka."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import create_topic
from tests.limits import HANGS_S

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]


def test_it_is_kept_without_results():
    codes = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert all(not code["outputs"] and code["execution_count"] is None for code in codes)


@pytest.mark.slow
@pytest.mark.timeout(HANGS_S)
def test_its_cells_work_as_described(kafka, admin, produce, topic, tmp_path):
    sys.path.insert(0, str(ROOT / "examples" / "demo"))
    from orders import make_orders

    orders = topic("orders", 3)
    for name in ("clean", "dead", "live", "live-dead"):
        create_topic(admin, f"{orders}-{name}", 3)
    given = make_orders(2000, bad_share=0.1, seed=3)
    produce(orders, [{"key": o.key, "value": o.value, "headers": o.headers} for o in given])
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples)
    script = examples / "cells.py"
    script.write_text(
        "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    )
    environment = {
        **os.environ, "KAFKA": kafka.bootstrap_servers, "ORDERS": orders,
        "CHECKPOINT": str(tmp_path / "checkpoint"), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(script)], cwd=examples, env=environment, capture_output=True,
        text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    bad = sum(bool(item.bad) for item in given)
    repaired = sum(item.bad in {"amount as text", "no key"} for item in given)
    assert f"2,000 judged, {bad} refused" in done.stdout, done.stdout
    assert "refused with 87: " in done.stdout
    assert f"{2000 - bad:,} accepted, {bad} refused, 0 done before" in done.stdout
    assert f"{repaired} returned, {bad - repaired} wait for another repair" in done.stdout
    assert f"{2000 - bad + repaired:,} judged, 0 refused" in done.stdout
    assert f"{2000 - bad:,} orders in {orders}-live, 0 refused" in done.stdout
