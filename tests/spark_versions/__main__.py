"""Runs the demo of `demo.py`, and the example of pipelines, on several versions of PySpark.

See `make spark-versions`.

Each has an environment of its own in the cache, with that PySpark and what it requires; everything
else comes from the environment of the checkout. Ends with 1 where a demo fails.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.kafka.artifacts import cache_folder, class_path
from penstock.kafka.local import LocalKafka
from tests.conftest import create_topic
from tests.limits import HANGS_S
from tests.spark.connect_server import connect_server
from tests.spark.pipelines.scenario import run_scenario
from tests.spark_connector import jars_without
from tests.spark_versions.environments import CLIENT, PYSPARK, environment, variables

VERSIONS: Final = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
CLIENTS: Final = {"4.0.5": "4.0.4", "4.1.4": "4.1.3", "4.2.1": "4.2.0"}
"""The versions of `pyspark-client` for servers; with others, it is `pyspark`."""
CONNECT_SERVER: Final = "org.apache.spark:spark-connect_2.12:3.5.7"
"""Of Spark 3.5, whose PySpark has no server."""
WITHOUT_PIPELINES: Final = ("3.", "4.0.")
RECORDS: Final = 2000
HERE: Final = Path(__file__).parent
POLICIES: Final = """
from penstock.policy import InvalidRecordException, RecordValidationPolicy

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if record.value.startswith(b"bad"):
            raise InvalidRecordException("bad is not good")
"""


def main(wanted: list[str]) -> int:
    """Run the demo on the versions; return the exit code."""
    results = {}
    with LocalKafka(properties={"auto.create.topics.enable": "false"}) as kafka:
        for version in wanted or VERSIONS:
            results[version] = _run_demo(kafka, version, "local[2]")
            with tempfile.TemporaryDirectory() as folder, _server(version, Path(folder)) as address:
                results[f"{version} with Spark Connect"] = _run_demo(kafka, version, address)
            if not version.startswith(WITHOUT_PIPELINES):
                results[f"{version} with pipelines"] = _run_pipelines(version)
    for version, is_good in results.items():
        print(f"{version}  {'passed' if is_good else 'FAILED'}")
    return 0 if all(results.values()) else 1


def _run_demo(kafka: LocalKafka, version: str, where: str) -> bool:
    """Run the demo on a master, or with a server of Spark Connect; return whether it passed."""
    began = time.monotonic()
    is_client = where.startswith("sc://") and version in CLIENTS
    package, own = (CLIENT, CLIENTS[version]) if is_client else (PYSPARK, version)
    done = subprocess.run(
        [environment(own, package), str(HERE / "demo.py"), where, own, *_prepared(kafka, version)],
        env=variables(version), capture_output=True, text=True, timeout=HANGS_S, check=False,
    )  # fmt: skip
    how = "with Spark Connect" if where.startswith("sc://") else where
    print(f"PySpark {version} {how}: {time.monotonic() - began:.0f} s", flush=True)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        print(done.stderr[-6000:], file=sys.stderr)
    return done.returncode == 0


def _run_pipelines(version: str) -> bool:
    """Run the example of declarative pipelines; return whether it passed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_scenario(Path(folder), _home(version), variables(version))
        except Exception:  # also a failed assertion
            traceback.print_exc()
            return False
    print(f"PySpark {version} pipelines: {time.monotonic() - began:.0f} s", flush=True)
    return True


def _home(version: str) -> Path:
    """Return the folder of a version's Spark."""
    (home,) = Path(environment(version)).parents[1].glob("lib/python*/site-packages/pyspark")
    return home


def _server(version: str, folder: Path) -> contextlib.AbstractContextManager[str]:
    home = _home(version)
    jars: list[Path] = []
    if version.startswith("3."):
        found = class_path(CONNECT_SERVER).split(os.pathsep)
        jars = jars_without(found, home / "jars")
    return connect_server(home, folder, variables(version), jars)


def _prepared(kafka: LocalKafka, version: str) -> list[str]:
    """Write a plan, create topics, fill the first; return the arguments of the demo."""
    folder = cache_folder() / "spark-versions" / f"{version}-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    (folder / "no_bad.py").write_text(POLICIES)
    file = folder / "penstock.properties"
    file.write_text(
        f"upstream.bootstrap.servers={kafka.bootstrap_servers}\n"
        "record.validation.policy.class.name=no_bad.NoBad\n"
        "topics.*.record.validation.policy=any\n"
    )
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    names = [f"{kind}-{folder.name}" for kind in ("in", "clean", "dead", "out", "streamed")]
    for name in names:
        create_topic(admin, name, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(RECORDS):
        value = b"bad" if number % 10 == 0 else b"good %d" % number
        producer.produce(names[0], value, partition=number % 2)
    assert producer.flush(30) == 0
    return [str(file), str(folder / "checkpoint"), *names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
