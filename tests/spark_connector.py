"""Spark's own Kafka connector, with which rows and speeds are compared; Penstock does not use it.

`python -m tests.spark_connector` downloads it; `make setup` does so.
"""

import os
from pathlib import Path

import pyspark

from penstock.kafka import artifacts

CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
    "+org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"
)


def connector_jars() -> str:
    """Return the connector's jars for `spark.jars`, without those that Spark has."""
    jars = artifacts.class_path(CONNECTOR).split(os.pathsep)
    return ",".join(map(str, jars_without(jars, Path(pyspark.__file__).parent / "jars")))


def jars_without(jars, folder):
    """Return the jars of artifacts that are not in a folder, in any version."""
    own = {_artifact(jar) for jar in folder.glob("*.jar")}
    return [jar for jar in map(Path, jars) if _artifact(jar) not in own]


def read_by_connector(spark, servers, topics, **options):
    """Read topics as a frame with Kafka's columns."""
    return (
        spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
        .option("subscribe", topics).option("includeHeaders", "true")
        .option("kafka.isolation.level", "read_committed").options(**options).load()
    )  # fmt: skip


def _artifact(jar: Path) -> str:
    """Return a jar's name without its version: the part before the first dash and digit."""
    parts = jar.name.removesuffix(".jar").split("-")
    version = next((i for i, part in enumerate(parts) if i and part[:1].isdigit()), len(parts))
    # spark-sql-kafka-0-10_2.13-4.2.0 has digits in its name: the last part is the version.
    return "-".join(parts[:version]) if version < len(parts) - 1 else "-".join(parts[:-1])


if __name__ == "__main__":
    artifacts.class_path(CONNECTOR, print)
