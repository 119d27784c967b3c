"""`examples/pipelines`: Spark's declarative pipelines over the data source, as its command runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.spark.installed import SPARK

EXAMPLE = Path(__file__).parents[3] / "examples" / "pipelines"


@pytest.mark.spark_processes
def test_the_example(spark, configured, produce, topic, tmp_path):
    source, project, storage = topic("orders", 2), tmp_path / "project", tmp_path / "storage"
    shutil.copytree(EXAMPLE, project)
    file = project / "spark-pipeline.yml"
    values = {
        "/etc/penstock/penstock.properties": str(configured()),
        "spark.penstock.topic: orders": f"spark.penstock.topic: {source}",
        "file:///var/lib/orders-pipeline": storage.as_uri(),
    }
    spec = file.read_text()
    for written, wanted in values.items():
        assert written in spec
        spec = spec.replace(written, wanted)
    file.write_text(spec)
    storage.mkdir()

    def run():
        done = subprocess.run(
            [SPARK / "bin" / "spark-pipelines", "run", "--conf",
             "spark.sql.catalogImplementation=hive", "--spec", file],
            cwd=project, capture_output=True, text=True, timeout=HANGS_S, check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
                 "PYSPARK_DRIVER_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    def table(name):
        return spark.read.parquet(str(project / "spark-warehouse" / name))

    produce(source, [{"value": b"bad" if n % 5 == 0 else b"good", "key": b"%d" % n}
                     for n in range(100)])  # fmt: skip
    run()
    assert (table("accepted").count(), table("rejected").count()) == (80, 20)
    produce(source, [{"value": b"bad", "key": b"later"}])
    run()
    assert table("judged").count() == 101, "each record once"
    assert max(row.key for row in table("rejected").collect()) == b"later"
    counts = {row.verdict.outcome: row["count"] for row in table("reasons").collect()}
    assert counts == {"accepted": 80, "refused": 21}
