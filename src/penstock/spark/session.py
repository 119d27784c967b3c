"""Spark sessions for the commands, and what Spark's Kafka connector needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock import artifacts
from penstock.spark.failures import SparkError, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # With it, some frames bring Spark's task threads into an endless loop.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # A policy that hangs: its Python worker is ended, the task is tried again, the job fails.
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "120",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Kafka's sink of the newer kind: only its jobs report what is observed while they run.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
"""Defaults that Penstock sets; worth setting in your own sessions, too."""
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "1g",
}


_JVM_ENDS_WITHIN_S: Final = 30.0


def connector_jars() -> list[str]:
    """Return the paths of the connector's jars, fetched the first time, without Spark's own.

    Raises:
        ArtifactError: They cannot be fetched.
    """
    own = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    jars = map(Path, artifacts.class_path(artifacts.Artifacts.SPARK_CONNECTOR).split(os.pathsep))
    return [str(jar) for jar in jars if _artifact(jar) not in own]


def start_session(name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session with the connector and Penstock's defaults.

    Args:
        name: What Spark's own pages call it.
        master: Spark's master URL.
        conf: Spark's own keys; they win over ours. With `spark.jars` or
            `spark.jars.packages` among them, the connector is looked for there.

    Raises:
        ArtifactError: Java is missing, or the connector cannot be fetched.
        SparkError: Spark does not start.
    """
    artifacts.java()
    settings = {**SETTINGS}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= _LOCAL
    settings["spark.pyspark.python"] = sys.executable
    if not {"spark.jars", "spark.jars.packages"} & set(conf):
        settings["spark.jars"] = ",".join(connector_jars())
    settings |= conf
    # Nothing of Spark's log belongs on a command's terminal; the commands print errors.
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "-Dlog4j2.configurationFile=" not in options:
        quiet = Path(__file__).with_name("log4j2.properties")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        end_jvm()
        raise SparkError(f"Spark does not start at {master}: {first_line(str(error))}") from None
    session.sparkContext.setLogLevel("OFF")
    return session


def stop_session(session: SparkSession) -> None:
    """Stop a session, and wait for the end of its JVM."""
    session.stop()
    end_jvm()


def end_jvm() -> None:
    """End the JVM that PySpark started for this process, and wait for its end.

    Left alone, it ends some seconds after this process. A JVM that started this process
    (`spark-submit`) goes on.
    """
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its JVM
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.shutdown()
    if process.stdin is not None:
        process.stdin.close()  # which the JVM ends at
    try:
        process.wait(_JVM_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _artifact(jar: Path) -> str:
    """Return a jar's name without its version: the part before the first dash and digit."""
    parts = jar.name.removesuffix(".jar").split("-")
    version = next((i for i, part in enumerate(parts) if i and part[:1].isdigit()), len(parts))
    # spark-sql-kafka-0-10_2.13-4.2.0 has digits in its name: the last part is the version.
    return "-".join(parts[:version]) if version < len(parts) - 1 else "-".join(parts[:-1])
