"""Runs the tests of the gateway and of the jobs on several versions of Kafka's brokers.

`make kafka-versions` does so, with `VERSIONS=` on others. Clients and tools are those of the newest
version. Ends with 1 where a test fails.
"""

import subprocess
import sys
import time
from typing import Final

from penstock.kafka.artifacts import ArtifactError, class_path, kafka_artifacts
from penstock.kafka.local import LocalKafka
from tests import class_archives

VERSIONS: Final = ("3.9.2", "4.0.2", "4.2.2", "4.4.0")
"""Their files have listed sums; those of other versions are taken as the registry has them."""
GATEWAY: Final = ("tests/gateway", "tests/integration", "tests/hostile", "tests/kafka/cluster")
JOBS: Final = ("tests/kafka/client", "tests/jobs", "tests/spark")


def command(version: str, how: list[str]) -> list[str]:
    """Return the command line of the tests on a version.

    Args:
        version: The version.
        how: Arguments of pytest: which of the tests, and in how many processes.
    """
    of_version = f"--kafka-version={version}"
    return [sys.executable, "-m", "pytest", "--quiet", of_version, *how, *GATEWAY, *JOBS]


def main(arguments: list[str]) -> int:
    """Run the tests on the versions; return the exit code.

    Args:
        arguments: The versions, by default `VERSIONS`, then `--` and arguments of pytest.
    """
    end = arguments.index("--")
    wanted, how = arguments[:end], arguments[end + 1 :]
    results = {}
    for version in wanted or VERSIONS:
        try:
            class_path(kafka_artifacts(version), print, may_be_unlisted=version not in VERSIONS)
        except ArtifactError as error:
            sys.stderr.write(f"{error}\n")
            return 3
        LocalKafka.kafka = kafka_artifacts(version)
        class_archives.create()
        began = time.monotonic()
        done = subprocess.run(command(version, how), check=False)
        results[version] = done.returncode == 0
        print(f"Kafka {version}: {time.monotonic() - began:.0f} s", flush=True)
    for version, is_good in results.items():
        print(f"{version}  {'passed' if is_good else 'FAILED'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
