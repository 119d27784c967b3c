"""Spark sessions for the commands, and what Spark's Kafka connector needs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock import artifacts
from penstock.machine import memory_bytes
from penstock.spark.execution.failures import SparkError, first_line, jvm_end
from penstock.spark.execution.jvm_output import forward
from penstock.spark.execution.memory import cores_of, jvm_memory
from penstock.spark.execution.settings import OF_COMMANDS, SETTINGS
from penstock.spark.sink_secrets import for_executors

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SETTINGS",
    "connector_jars",
    "end_jvm",
    "environment_of",
    "jvm_failure",
    "start_session",
    "stop_session",
]
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}


_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` in the environment of what it starts."""
_JVM_ENDS_WITHIN_S: Final = 30.0
_JVM_IS_ENDING_S: Final = 10.0


def connector_jars() -> list[str]:
    """Return the paths of the connector's jars, fetched the first time, without Spark's own.

    Raises:
        ArtifactError: They cannot be fetched.
    """
    own = {_artifact(jar) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    jars = map(Path, artifacts.class_path(artifacts.Artifacts.SPARK_CONNECTOR).split(os.pathsep))
    return [str(jar) for jar in jars if _artifact(jar) not in own]


def start_session(
    name: str,
    master: str | None,
    conf: Mapping[str, str],
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    connector: bool = True,
) -> SparkSession:
    """Start a session with Penstock's defaults, and with the connector where it is needed.

    In a process that `spark-submit` started, what it was given wins over the defaults, and the
    connector is what it was given, too: by `--packages` or `--jars`.

    Args:
        name: What Spark's own pages call it.
        master: Spark's master URL; None for `local[*]`, or that of `spark-submit`.
        conf: Spark's own keys; they win over ours. With `spark.jars` or
            `spark.jars.packages` among them, the connector is looked for there.
        environment: Variables for Spark's JVMs, which can be secrets.
        connector: Whether topics are read or written by Spark's Kafka connector.

    Raises:
        ArtifactError: Java is missing, or the connector cannot be fetched.
        SparkError: Spark does not start.
    """
    if _SUBMITTED in os.environ:
        settings = _submitted_settings()
    else:
        settings = _own_settings(master, conf, connector=connector)
    settings |= conf
    if master is not None:
        settings["spark.master"] = master
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    try:
        session = _started(settings, name, environment)
    except (PySparkException, OSError, RuntimeError) as error:
        end_jvm()
        raise SparkError(
            f"Spark does not start at {settings.get('spark.master')}: {first_line(str(error))}"
        ) from None
    session.sparkContext.setLogLevel("OFF")
    return session


def _started(
    settings: Mapping[str, str], name: str, environment: Mapping[str, str]
) -> SparkSession:
    # The settings are on the command line of the JVM, where others can read them. What is set
    # after it has been started is not; its own environment is only its user's to read.
    os.environ.update(environment)
    try:
        _start_jvm({"spark.app.name": name, **settings})
    finally:
        for variable in environment:
            del os.environ[variable]
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings, **for_executors(environment)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def environment_of(session: SparkSession, name: str) -> str | None:
    """Return a variable that Spark's executors have; None where they have not."""
    found: str | None
    if str(session.sparkContext.master).split("[")[0] == "local":
        found = session._jvm.java.lang.System.getenv(name)  # type: ignore[union-attr] # noqa: SLF001
    else:
        (setting,) = for_executors({name: ""})
        found = session.sparkContext.getConf().get(setting, None)
    return found


def _own_settings(
    master: str | None, conf: Mapping[str, str], *, connector: bool
) -> dict[str, str]:
    """Return the settings of a session whose JVM this process starts."""
    artifacts.java()
    master = master or "local[*]"
    settings = {**OF_COMMANDS, "spark.master": master, "spark.pyspark.python": sys.executable}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        cores = cores_of(master, os.cpu_count() or 1)
        settings |= {**_LOCAL, "spark.driver.memory": jvm_memory(cores, memory_bytes())}
    # Of other versions there is none here; topics are read and written without it.
    if connector and _is_of_connector() and not {"spark.jars", "spark.jars.packages"} & set(conf):
        settings["spark.jars"] = ",".join(connector_jars())
    # Nothing of Spark's log belongs on a command's terminal; the commands print errors.
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "-Dlog4j2.configurationFile=" not in options:
        quiet = Path(__file__).with_name("log4j2.properties")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return settings


def _is_of_connector() -> bool:
    """Return whether the connector is made for the version of PySpark."""
    wanted = artifacts.Artifacts.SPARK_CONNECTOR.value.partition("+")[0].rpartition(":")[2]
    return pyspark.__version__.split(".")[:2] == wanted.split(".")[:2]


def _submitted_settings() -> dict[str, str]:
    """Return the settings of a session in a process that `spark-submit` started."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - what it was given is known to its JVM
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {**OF_COMMANDS, "spark.pyspark.python": python, **dict(SparkConf().getAll())}


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start PySpark's JVM as PySpark does, but for the noise that it writes.

    Where there is a session already, such as that of `spark-submit`, nothing is started.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # A pipe of our own, not a standard stream of the process: it is read while the JVM starts.
    reading, writing = os.pipe()
    forward(os.fdopen(reading, "rb"))
    try:
        gateway = launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001


def stop_session(session: SparkSession) -> None:
    """Stop a session, and wait for the end of its JVM; it may have ended by itself before."""
    with contextlib.suppress(Py4JError, OSError):
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


def jvm_failure() -> str | None:
    """Return why the JVM that PySpark started for this process ended by itself; None if it runs.

    Where the connection to it has just been lost, its end may be a moment away.
    """
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None:
        return None
    try:
        return jvm_end(process.wait(_JVM_IS_ENDING_S))
    except subprocess.TimeoutExpired:
        return None


def _artifact(jar: Path) -> str:
    """Return a jar's name without its version: the part before the first dash and digit."""
    parts = jar.name.removesuffix(".jar").split("-")
    version = next((i for i, part in enumerate(parts) if i and part[:1].isdigit()), len(parts))
    # spark-sql-kafka-0-10_2.13-4.2.0 has digits in its name: the last part is the version.
    return "-".join(parts[:version]) if version < len(parts) - 1 else "-".join(parts[:-1])
