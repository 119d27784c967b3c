"""Archives of the Java classes of Kafka and of Spark (Java's class data sharing).

A broker, a client or Spark's JVM that maps an archive starts with less than two thirds of the CPU
time. `python -m tests.class_archives` creates those that are missing. An archive is for one class path
and one Java: its name has a digest of both.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from penstock.kafka.artifacts import cache_folder, java
from penstock.kafka.local import LocalKafka, class_path

_FOLDER: Final = cache_folder() / "class-archives"
_ENDS_WITHIN_S: Final = 300
_SPARK_JOB: Final = """
import sys
from pyspark import SparkContext
from penstock.spark.session import start_session
session = start_session("class archive", "local[2]", {})
frame = session.range(100).mapInArrow(lambda batches: batches, "id long")
frame.write.parquet(sys.argv[1])
assert session.read.parquet(sys.argv[1]).groupBy("id").count().count() == 100
session.stop()
jvm = SparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
"""
"""It waits for the JVM, which takes as long as it needs to write its classes."""


def kafka_options(kafka: str | None = None) -> tuple[str, ...]:
    """Return the options with which a JVM of Kafka's class path uses the archive; none without it.

    Args:
        kafka: Kafka's artifacts; by default those of the local Kafka.
    """
    return _options(_kafka_archive, kafka or LocalKafka.kafka)


def spark_options() -> tuple[str, ...]:
    """Return the options with which Spark's JVM uses its archive; none without it."""
    return _options(_spark_archive) if importlib.util.find_spec("pyspark") else ()


def create() -> None:
    """Create the archives that are missing."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    _create(_kafka_archive(LocalKafka.kafka), _run_broker)
    _create(_spark_archive(), _run_spark)


def _options(archive: Callable[..., Path], *arguments: str) -> tuple[str, ...]:
    if not _FOLDER.exists():  # nor, perhaps, Java, Kafka and Spark
        return ()
    file = archive(*arguments)
    return (f"-XX:SharedArchiveFile={file}",) if file.exists() else ()


def _kafka_archive(kafka: str) -> Path:
    return _archive("kafka", class_path(kafka=kafka))


def _spark_archive() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    return _archive("spark", f"{spec.origin} {importlib.metadata.version('pyspark')}")


def _archive(name: str, classes: str) -> Path:
    """Return the file of an archive, by the classes and the Java that it is for."""
    program = Path(java()).resolve()
    of = f"{program} {program.stat().st_mtime_ns} {classes}"
    return _FOLDER / f"{name}-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def _create(archive: Path, run: Callable[[str, Path], None]) -> None:
    if archive.exists():
        return
    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as folder:
        written = archive.with_suffix(f".{os.getpid()}")
        run(f"-XX:ArchiveClassesAtExit={written}", Path(folder))
        written.replace(archive)


def _run_broker(option: str, folder: Path) -> None:
    """Start a broker, use it, end it; Java writes the archive at its orderly end."""

    class Recorded(LocalKafka):
        java_options: Sequence[str] = (option,)

    with Recorded(folder=folder) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        admin.list_topics(timeout=60)
        (node,) = kafka.nodes
        assert node.pid is not None
        os.kill(node.pid, signal.SIGTERM)  # LocalKafka kills a broker that takes long to end
        deadline = time.monotonic() + _ENDS_WITHIN_S
        while node.pid is not None and time.monotonic() < deadline:
            time.sleep(0.1)


def _run_spark(option: str, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", _SPARK_JOB, str(folder / "rows")],
        env={**os.environ, "SPARK_SUBMIT_OPTS": option},
        stdout=subprocess.DEVNULL,  # Java names each class that it does not archive
        check=True,
        timeout=_ENDS_WITHIN_S,
    )


if __name__ == "__main__":
    create()
