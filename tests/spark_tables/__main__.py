"""Runs the scenario of `scenario.py` on a real Delta; see `make spark-tables`.

It has its own PySpark; see `tests.spark_versions.environments`. Exits with 1 if the scenario fails.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from penstock.artifacts import cache_folder, class_path
from penstock.local import LocalKafka
from tests.conftest import create_topic
from tests.spark_connector import jars_without
from tests.spark_versions.environments import environment, variables

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 3000


PYSPARK: Final = "4.2.0"
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"


def main(steps: list[str]) -> int:
    """Run the scenario, or some of its steps; return its exit code."""
    with LocalKafka(properties={"auto.create.topics.enable": "false"}) as kafka:
        return subprocess.run(
            [*_arguments(kafka), *steps], env=variables(PYSPARK), cwd=HERE.parents[1], timeout=TIMEOUT_S,
            check=False,
        ).returncode  # fmt: skip


def _arguments(kafka: LocalKafka) -> list[str]:
    """Create the scenario's topics and folder; return its arguments."""
    folder = cache_folder() / "spark-tables" / uuid.uuid4().hex[:6]
    folder.mkdir(parents=True)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for name in (
        "batch",
        "stream",
        "beside",
        "dead",
        "old",
        "older",
        "errors",
        "killed",
        "nameless",
        "others",
    ):
        create_topic(admin, f"{name}-{folder.name}", 2)
    jars = class_path(DELTA, print).split(os.pathsep)
    python = environment(PYSPARK)
    own = next(Path(python).parents[1].glob("lib/python*/site-packages/pyspark/jars"))
    return [python, "-m", "tests.spark_tables.scenario", str(folder), kafka.bootstrap_servers,
            ",".join(map(str, jars_without(jars, own)))]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
