"""Runs the scenario of `scenario.py` on a real Delta and a real Iceberg; see `make spark-tables`.

Each has its own PySpark; see `tests.spark_versions.environments`. Exits with 1 if the scenario fails.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from penstock.kafka.artifacts import cache_folder, class_path
from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.guard import end_with_this_process
from tests.spark_connector import jars_without
from tests.spark_tables.formats import FORMATS, TableFormat
from tests.spark_versions.environments import environment, variables

HERE: Final = Path(__file__).parent
TIMEOUT_S: Final = 3000


def main(wanted: list[str]) -> int:
    """Run the scenario; return 0 if it passes.

    Args:
        wanted: Formats and steps; all unless given.
    """
    steps = [name for name in wanted if name not in FORMATS]
    formats = [FORMATS[name] for name in wanted if name in FORMATS] or list(FORMATS.values())
    codes = []
    with LocalKafka(properties={"auto.create.topics.enable": "false"}) as kafka:
        for of in formats:
            print(f"{of.using} on PySpark {of.pyspark}", flush=True)
            done = subprocess.run(
                [*_arguments(kafka, of), *steps], env=variables(of.pyspark), cwd=HERE.parents[1],
                timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
            codes.append(done.returncode)
    return max(codes, key=abs)


def _arguments(kafka: LocalKafka, of: TableFormat) -> list[str]:
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
        "expired",
        "killed",
        "nameless",
        "others",
        "parsed",
    ):
        create_topic(admin, f"{name}-{folder.name}", 2)
    jars = class_path(of.jar, print).split(os.pathsep)
    python = environment(of.pyspark)
    own = next(Path(python).parents[1].glob("lib/python*/site-packages/pyspark/jars"))
    return [python, "-m", "tests.spark_tables.scenario", str(folder), kafka.bootstrap_servers,
            ",".join(map(str, jars_without(jars, own))), of.using]  # fmt: skip


if __name__ == "__main__":
    end_with_this_process()
    sys.exit(main(sys.argv[1:]))
