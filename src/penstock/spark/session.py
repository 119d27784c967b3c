"""Spark sessions for the commands."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock.engine.machine import memory_bytes
from penstock.kafka import artifacts
from penstock.spark.execution.failures import SparkError, first_line, jvm_end
from penstock.spark.execution.jvm_output import forward
from penstock.spark.execution.memory import cores_of, jvm_memory
from penstock.spark.execution.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # With its default of 50, each commit to a Delta table takes 100 tasks, however small it is.
    "spark.databricks.delta.snapshotPartitions": "2",
}


_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` in the environment of its process."""
_JVM_ENDS_WITHIN_S: Final = 30.0
_JVM_IS_ENDING_S: Final = 30.0


def start_session(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Start a session with Penstock's defaults.

    In a process that `spark-submit` started, its options win over the defaults.

    Args:
        name: What Spark's own pages call it.
        master: Spark's master URL; None for `local[*]`, or that of `spark-submit`.
        conf: Spark's own keys; they win over ours.

    Raises:
        ArtifactError: Java is missing.
        SparkError: Spark does not start.
    """
    settings = _submitted_settings() if _SUBMITTED in os.environ else _own_settings(master)
    settings |= conf
    if master is not None:
        settings["spark.master"] = master
    os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    try:
        session = _started(settings, name)
    except (PySparkException, OSError, RuntimeError) as error:
        end_jvm()
        raise SparkError(
            f"Spark does not start at {settings.get('spark.master')}: {first_line(str(error))}"
        ) from None
    session.sparkContext.setLogLevel("OFF")
    # If the JVM is killed, the command reports it; this server would print a traceback.
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    return session


def _started(settings: Mapping[str, str], name: str) -> SparkSession:
    _start_jvm({"spark.app.name": name, **settings})
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _own_settings(master: str | None) -> dict[str, str]:
    """Return the settings of a session whose JVM this process starts."""
    artifacts.java()
    master = master or "local[*]"
    settings = {**SETTINGS, "spark.master": master, "spark.pyspark.python": sys.executable}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        cores = cores_of(master, os.cpu_count() or 1)
        settings |= {**_LOCAL, "spark.driver.memory": jvm_memory(cores, memory_bytes())}
        # Python workers print on this command's terminal, and Penstock is installed for them. On a
        # cluster, they print into the executors' logs.
        settings["spark.python.daemon.module"] = "penstock.spark.daemon"
    # Nothing of Spark's log belongs on a command's terminal; the commands print errors.
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "-Dlog4j2.configurationFile=" not in options:
        quiet = Path(__file__).with_name("log4j2.properties")
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={quiet}".strip()
    return settings


def _submitted_settings() -> dict[str, str]:
    """Return the settings of a session in a process that `spark-submit` started."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - what it was given is known to its JVM
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return {**SETTINGS, "spark.pyspark.python": python, **dict(SparkConf().getAll())}


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
        gateway = launch_gateway(conf, _JvmProcess(stderr=writing))  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001


class _JvmProcess(dict[str, Any]):
    """The arguments of the JVM's process, with which it ignores SIGTERM, as it does SIGINT.

    A signal to the process group (`timeout`) or to all processes of a service (systemd) is for the
    command, which ends its queries, and the JVM at the end. A JVM that ends by itself takes the
    queries with it. PySpark sets the function that the process calls first.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, partial(_prepare, value) if name == "preexec_fn" else value)


def _prepare(prepare: Callable[[], None]) -> None:
    prepare()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def stop_session(session: SparkSession) -> None:
    """Stop a session, and wait for the end of its JVM; it may have ended by itself before."""
    with contextlib.suppress(Py4JError, OSError):
        session.stop()
    end_jvm()


def end_jvm() -> None:
    """End the JVM that PySpark started for this process, and wait for its end.

    Left alone, it ends a few seconds after this process. A JVM that started this process
    (`spark-submit`) continues.
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


def has_stopped(session: SparkSession) -> bool:
    """Return whether a session has stopped by itself, as it does while its JVM ends.

    Jobs fail then with errors of Java that name other reasons, or none.
    """
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - Python cannot tell
    except (Py4JError, OSError):
        return True


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
