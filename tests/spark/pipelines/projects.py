"""Projects of declarative pipelines, run by Spark's own command."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.limits import HANGS_S
from tests.spark.installed import SPARK

SPEC = """
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


class Project:
    """A project in a folder, whose catalog stays between its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = folder / "rows"
        for each in (folder / "storage", folder / "transformations", self.rows):
            each.mkdir(parents=True)
        spec = SPEC.format(storage=(folder / "storage").as_uri())
        (folder / "spark-pipeline.yml").write_text(spec)

    def define(self, source: str, name: str = "orders") -> None:
        """Write a file of datasets; `ROWS` in it is the folder of rows."""
        text = source.replace("ROWS", repr(self.rows.as_uri()))
        (self.folder / "transformations" / f"{name}.py").write_text(text)

    def add(self, *rows: dict) -> None:
        """Write rows to a new file."""
        file = self.rows / f"{len(list(self.rows.iterdir()))}.json"
        file.write_text("\n".join(map(json.dumps, rows)))

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run an update of the pipeline."""
        return subprocess.run(
            [SPARK / "bin" / "spark-pipelines", "run", "--conf",
             "spark.sql.catalogImplementation=hive", *arguments],
            cwd=self.folder, capture_output=True, text=True, timeout=HANGS_S, check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
                 "PYSPARK_DRIVER_PYTHON": sys.executable},
        )  # fmt: skip

    def update(self, *arguments: str) -> None:
        """Run an update of the pipeline, which succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    def table(self, spark, name: str):
        """The rows of a table, as dictionaries."""
        frame = spark.read.parquet(str(self.folder / "spark-warehouse" / name))
        return [row.asDict(recursive=True) for row in frame.collect()]
