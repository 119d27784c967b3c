"""librdkafka's own test suite, from the crate that bundles its sources."""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final

from penstock.kafka.artifacts import java
from penstock.kafka.local import class_path
from penstock.kafka.local.tools import TOOLS
from tests.conformance.commands import build, run
from tests.conformance.fetched import crate
from tests.conformance.outcomes import Outcome
from tests.conformance.suite import Suite
from tests.java import QUICK

_CRATE: Final = "rdkafka-sys"
_SUM: Final = "e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77"
_AT_ONCE: Final = 3
_SECONDS: Final = 240.0
_TEST: Final = re.compile(r'"name": "([^"<]+)", "state": "([A-Z]+)"')
_MANUAL: Final = "8"
"""Tests whose numbers begin so are run by hand, and do not end by themselves."""
_OUTCOMES: Final = {
    "PASSED": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "RUNNING": Outcome.FAILED,
}
SHORT: Final = ("0001", "0003", "0005", "0007", "0008", "0011", "0012", "0013", "0017", "0018",
                "0019", "0022", "0030", "0033", "0040", "0048", "0052", "0057", "0061", "0063",
                "0067", "0070", "0073", "0081", "0085", "0086", "0090", "0092", "0098", "0099",
                "0103", "0109", "0110", "0129", "0130", "0140")  # fmt: skip
"""Those of the selection, by number: producing of each kind, groups, transactions, admin."""


class Librdkafka(Suite):
    """Every test of the scenario `default` that needs a broker, in the quick mode of its CI."""

    name = "librdkafka"
    version = "2.12.1"
    needs: ClassVar = ("cargo", "cc", "c++", "make")
    broker: ClassVar = {
        "auto.create.topics.enable": "true",
        "num.partitions": "4",
        "default.replication.factor": "3",
        # Its admin tests create ACLs. Without a login every client is the same user, a superuser.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    least: ClassVar = (75, 27)

    @property
    def _sources(self) -> Path:
        return self.folder / f"{_CRATE}-4.10.0+{self.version}" / "librdkafka"

    @property
    def _tests(self) -> Path:
        return self._sources / "tests"

    def prepare(self) -> None:
        """Fetch the crate, and build the library and its `test-runner`."""
        if (self.folder / "built").exists():
            return
        crate(_CRATE, f"4.10.0+{self.version}", _SUM, self.folder)
        for step in (
            ["./configure", "--disable-curl", "--disable-gssapi", "--disable-debug-symbols"],
            ["make", "-j2", "-C", "src"],
            ["make", "-j2", "-C", "src-cpp"],
            ["make", "-j2", "-C", "tests", "test-runner"],
        ):
            build(step, self.folder / "build.log", folder=self._sources)
        (self.folder / "built").touch()

    def run(
        self, address: str, output: Path, tests: Sequence[str] | None = None
    ) -> dict[str, Outcome]:
        """Run each test in its own process: a crash affects no other test."""
        settings = output / "test.conf"
        _write_tools(output / "kafka" / "bin")
        settings.write_text(f"bootstrap.servers={address}\ntest.topic.random=true\n")
        listed = outcomes(self._run(address, output, "none"), "none")
        selected = tests or [name for name in listed if not self.short or _number(name) in SHORT]
        numbers = sorted({_number(name) for name in selected})
        found: dict[str, Outcome] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for number, report in zip(
                numbers,
                pool.map(lambda number: self._run(address, output, number), numbers),
                strict=True,
            ):
                # Without a report it crashed, or took too long.
                found |= outcomes(report, number) or {
                    name: Outcome.FAILED for name in listed if _number(name) == number
                }
        return {name: outcome for name, outcome in found.items() if tests is None or name in tests}

    def _run(self, address: str, output: Path, number: str) -> str:
        """Run the tests of a number, return its report; `none` has it list all tests as skipped."""
        report, printed = output / f"{number}.json", output / f"{number}.log"
        report.unlink(missing_ok=True)
        libraries = f"{self._sources / 'src'}:{self._sources / 'src-cpp'}"
        run(
            ["./test-runner", "-p1", "-L", "-Q"],
            printed, seconds=_SECONDS, folder=self._tests,
            environment={
                "TESTS": number,
                "TEST_REPORT": str(report),
                "TEST_SEED": str(self.seed),
                "TEST_KAFKA_VERSION": "4.0.0",
                "TEST_LEVEL": "1",
                "KAFKA_PATH": str(output / "kafka"),
                "BROKERS": address,
                "RDKAFKA_TEST_CONF": str(output / "test.conf"),
                "LD_LIBRARY_PATH": f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            },
        )  # fmt: skip
        return report.read_text(errors="replace") if report.exists() else ""


def outcomes(report: str, number: str) -> dict[str, Outcome]:
    """Return the outcomes in a report of `test-runner`, of the tests of a number or of all."""
    return {
        name: _OUTCOMES.get(state, Outcome.SKIPPED)
        for name, state in _TEST.findall(report)
        if number in ("none", _number(name)) and not name.startswith(_MANUAL)
    }


def _write_tools(folder: Path) -> None:
    """Write the scripts of a Kafka download that tests call: their topics come from these."""
    folder.mkdir(parents=True, exist_ok=True)
    start = f"exec {java()} -Xmx128m {' '.join(QUICK)} -cp {class_path()}"
    for name, main in TOOLS.items():
        script = folder / f"{name}.sh"
        script.write_text(f'#!/bin/sh\n{start} {main} "$@"\n')
        script.chmod(0o755)


def _number(name: str) -> str:
    return name.partition("_")[0]
