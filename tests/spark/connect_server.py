"""A server of Spark Connect as a process."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.limits import HANGS_S


@contextlib.contextmanager
def connect_server(
    home: Path, folder: Path, environment: Mapping[str, str], jars: Sequence[Path] = ()
) -> Iterator[str]:
    """Start a server, and end it.

    Args:
        home: The folder of Spark, or of an installed `pyspark`.
        folder: Where its log is written.
        environment: Its environment variables.
        jars: Besides those of Spark: before Spark 4.0, the server has its own jar.

    Returns:
        Its address, `sc://HOST:PORT`.
    """
    port, log = free_ports(1)[0], folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), "--master", "local[2]",
             "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
             "--conf", f"spark.connect.grpc.binding.port={port}",
             "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
             "--conf", "spark.ui.enabled=false",
             *(["--jars", ",".join(map(str, jars))] if jars else []), "spark-internal"],
            stdout=file, stderr=subprocess.STDOUT, env={**environment, "SPARK_HOME": str(home)},
            cwd=folder,
        )  # fmt: skip

    def has_started() -> bool:
        assert process.poll() is None, log.read_text()
        return "server started at" in log.read_text()

    try:
        wait_until(has_started, HANGS_S, what="Spark Connect")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
