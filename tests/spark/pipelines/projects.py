"""Projects of declarative pipelines, run by Spark's own command."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.limits import HANGS_S
from tests.spark.installed import SPARK

SPEC = """
name: orders
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
CONF = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
}
OPTIONS = [text for key, value in CONF.items() for text in ("--conf", f"{key}={value}")]
HEAD = """
from pyspark.sql import SparkSession
from penstock import pipelines as dp

spark = SparkSession.active()
SCHEMA = "id INT, amount INT"

@dp.table
def raw():
    return spark.readStream.schema(SCHEMA).json(ROWS)
"""


class Project:
    """A project in a folder, whose catalog stays between its runs."""

    def __init__(
        self, folder: Path, spark: Path = SPARK, environment: dict[str, str] | None = None
    ) -> None:
        """Make one with a folder for the rows of its datasets.

        Args:
            spark: The folder of Spark.
            environment: The variables for its command; by default those of this process.
        """
        self.folder = folder
        self.rows = folder / "rows"
        self.warehouse = folder / "spark-warehouse"
        self._command = spark / "bin" / "spark-pipelines"
        of_process = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        self._environment = {**(environment or of_process), "SPARK_HOME": str(spark)}
        self._environment["PYSPARK_DRIVER_PYTHON"] = self._environment["PYSPARK_PYTHON"]
        for each in (folder / "storage", folder / "transformations", self.rows):
            each.mkdir(parents=True)
        spec = SPEC.format(storage=(folder / "storage").as_uri())
        (folder / "spark-pipeline.yml").write_text(spec)

    @classmethod
    def initialised(cls, folder: Path, spark: Path, environment: dict[str, str] | None) -> Self:
        """Make one as `spark-pipelines init` does."""
        project = cls(folder, spark, environment)
        shutil.rmtree(folder)
        folder.parent.mkdir(exist_ok=True)
        project._run("init", "--name", folder.name, cwd=folder.parent).check_returncode()
        return project

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
        return self._run("run", *OPTIONS, *arguments)

    def start(self) -> subprocess.Popen:
        """Start an update of the pipeline, as the leader of a group of processes."""
        return subprocess.Popen(
            [self._command, "run", *OPTIONS], cwd=self.folder, env=self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def _run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self._command, *arguments], cwd=cwd or self.folder, env=self._environment,
            capture_output=True, text=True, timeout=HANGS_S, check=False,
        )  # fmt: skip

    def update(self, *arguments: str) -> None:
        """Run an update of the pipeline, which succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    def table(self, spark, name: str):
        """The rows of a table, as dictionaries."""
        frame = spark.read.parquet(str(self.folder / "spark-warehouse" / name))
        return [row.asDict(recursive=True) for row in frame.collect()]


def ids(project, spark, name):
    """The ids of the rows of a table, in order."""
    return sorted(row["id"] for row in project.table(spark, name))


def files_of(table: Path) -> list[Path]:
    """The files of a table that are committed: a stream has a log of them."""
    log = table / "_spark_metadata"
    if not log.exists():
        return sorted(table.glob("*.parquet"))
    lines = {line for file in log.glob("[0-9]*") for line in file.read_text().splitlines()[1:]}
    return sorted({table / Path(json.loads(line)["path"]).name for line in lines})
