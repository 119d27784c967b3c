"""Kafka Streams' smoke test with exactly_once_v2, while one of its instances is killed."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.kafka.artifacts import archive, class_path, java
from tests.conformance.commands import BuildError, build, end
from tests.conformance.outcomes import Outcome
from tests.conformance.suite import Suite
from tests.java import QUICK

VERSION: Final = "4.3.1"
_STREAMS: Final = f"org.apache.kafka:kafka-streams:{VERSION}+org.slf4j:slf4j-simple:1.7.36"
_WITH_TESTS: Final = (
    f"org.apache.kafka:kafka-streams:{VERSION}:jar:test",
    f"org.apache.kafka:kafka-clients:{VERSION}:jar:test",
)
_SOURCE: Final = Path(__file__).parent / "java" / "SmokeTest.java"
TOPICS: Final = ("data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw",
                 "sws-suppressed", "cnt", "avg", "tagg", "fk")  # fmt: skip
"""As the system test that runs it in Kafka creates them."""
_PARTITIONS: Final = 5
_INSTANCES: Final = 2
_STARTED: Final = "SMOKE-TEST-CLIENT-STARTED"
_CLOSED: Final = "SMOKE-TEST-CLIENT-CLOSED"
_TROUBLE: Final = "SMOKE-TEST-CLIENT-EXCEPTION"
_START_S: Final = 120.0
_CLOSE_S: Final = 90.0


@dataclass(frozen=True)
class Load:
    """How much the smoke test does.

    Attributes:
        keys: Different keys.
        records: Of each key.
        seconds: How long they are produced.
        kills: Instances that are killed meanwhile.
        limit_s: When it is given up.
    """

    keys: int
    records: int
    seconds: int
    kills: int
    limit_s: float


_LOADS: Final = (Load(20, 1000, 90, 3, 600.0), Load(10, 200, 20, 1, 240.0))
"""Of all, and of the selection."""


@dataclass
class Printed:
    """What the programs of one run printed.

    Attributes:
        driver: What produced the records and verified the results.
        closed: Each instance that was ended in order.
        killed: Each instance that was killed.
    """

    driver: str = ""
    closed: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)


class KafkaStreams(Suite):
    """Aggregations, joins and windows over 14 topics, each result written in a transaction."""

    name = "kafka-streams"
    version = VERSION
    needs: ClassVar = ("java",)
    broker: ClassVar = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
    }
    least: ClassVar = (5, 5)

    @property
    def _classes(self) -> Path:
        return self.folder / "classes"

    def prepare(self) -> None:
        """Fetch the jars, and compile the program that drives the test."""
        self._class_path()
        compiled = self._classes / f"{_SOURCE.stem}.class"
        if compiled.exists() and compiled.stat().st_mtime >= _SOURCE.stat().st_mtime:
            return
        self._classes.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which("javac") or str(Path(java()).parent / "javac")
        if not Path(compiler).exists():
            raise BuildError("the driver of the smoke test needs javac, which a JDK has")
        build([compiler, "-encoding", "UTF-8", "-cp", self._class_path(), "-d",
               str(self._classes), str(_SOURCE)], self.folder / "build.log",
              folder=self._classes)  # fmt: skip

    def _class_path(self) -> str:
        jars = [str(archive(coordinates)) for coordinates in _WITH_TESTS]
        return os.pathsep.join([class_path(_STREAMS), *jars, str(self._classes)])

    def run(
        self, address: str, output: Path, tests: Sequence[str] | None = None
    ) -> dict[str, Outcome]:
        """Run it as a whole: several outcomes are read from the same run."""
        load = _LOADS[self.short]
        _create_topics(address)
        made = Printed()
        with ExitStack() as ends:
            chance = random.Random(self.seed)
            course = _Course(self._command, address, output, ends, time.monotonic() + load.limit_s)
            instances = [course.start_instance() for _ in range(_INSTANCES)]
            driver = course.start_driver(load)
            for _ in range(load.kills):
                course.wait(driver, load.seconds / (load.kills + 1) * chance.uniform(0.7, 1.0))
                victim = instances.pop(chance.randrange(len(instances)))
                made.killed.append(victim.kill())
                instances.append(course.start_instance())
            course.wait(driver, load.limit_s)
            made.closed = [instance.close() for instance in instances]
            made.driver = driver.printed()
        found = outcomes(made, load.kills)
        return {name: found[name] for name in tests or found}

    def _command(self, main: str, *arguments: str, heap: str = "384m") -> list[str]:
        return [java(), f"-Xmx{heap}", *QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp", self._class_path(), main, *arguments]  # fmt: skip


class _Program:
    """A Java program and its output."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._output = output
        with output.open("wb") as printed:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def printed(self) -> str:
        return self._output.read_text(errors="replace")

    def kill(self) -> str:
        end(self.process)
        return self.printed()

    def close(self) -> str:
        """End it in order; kill it if it does not end."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_CLOSE_S)
        return self.kill()


class _Course:
    """Starts the programs of one run, and waits for them; all end in time."""

    def __init__(self, command, address: str, output: Path, ends: ExitStack, deadline: float):
        self._command = command
        self._address = address
        self._output = output
        self._ends = ends
        self._deadline = deadline
        self._count = 0

    def start_instance(self) -> _Program:
        """Start an instance, and wait until it processes records."""
        self._count += 1
        folder = self._output / f"instance-{self._count}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        settings = folder / "streams.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in {
            "bootstrap.servers": self._address,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": folder / "state",
            "replication.factor": 3,
            "num.standby.replicas": 0,
            "acceptable.recovery.lag": 9_223_372_036_854_775_807,
            "session.timeout.ms": 10_000,
            "commit.interval.ms": 500,
        }.items()))  # fmt: skip
        command = self._command("org.apache.kafka.streams.tests.StreamsSmokeTest",
                                str(settings), "process")  # fmt: skip
        started = self._start(command, folder / "printed.log")
        until = min(self._deadline, time.monotonic() + _START_S)
        while time.monotonic() < until and started.process.poll() is None:
            printed = started.printed()
            if _STARTED in printed or _TROUBLE in printed:
                break
            time.sleep(0.2)
        return started

    def start_driver(self, load: Load) -> _Program:
        """Start what produces, and verifies."""
        arguments = (self._address, str(load.keys), str(load.records), str(load.seconds))
        return self._start(self._command(_SOURCE.stem, *arguments), self._output / "driver.log")

    def wait(self, program: _Program, seconds: float) -> None:
        """Wait for the end of a program, for some time, or for the time limit of the run."""
        until = min(self._deadline, time.monotonic() + seconds)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.process.wait(max(0.0, until - time.monotonic()))

    def _start(self, command: Sequence[str], output: Path) -> _Program:
        program = _Program(command, output)
        self._ends.callback(end, program.process)
        return program


def outcomes(printed: Printed, kills: int) -> dict[str, Outcome]:
    """Return the outcomes of a run from the output of its programs."""
    driver = printed.driver
    lines = set(driver.splitlines())
    truths: Mapping[str, bool] = {
        "all records are processed": "ALL-RECORDS-DELIVERED" in lines,
        "none is processed twice": (
            "SUCCESS" in lines and "PROCESSED-MORE-THAN-GENERATED" not in driver
        ),
        "every aggregate is right": "SUCCESS" in lines,
        "instances were killed at work": (
            len(printed.killed) == kills and all(_STARTED in text for text in printed.killed)
        ),
        "instances end in order": (
            bool(printed.closed)
            and all(_CLOSED in text and _TROUBLE not in text for text in printed.closed)
        ),
    }
    return {name: Outcome.PASSED if is_true else Outcome.FAILED for name, is_true in truths.items()}


def _create_topics(address: str) -> None:
    """Create the topics, where they are not left from an earlier run: those are deleted first."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    names = admin.list_topics(timeout=60).topics
    old = [name for name in names if name in TOPICS or name.startswith("SmokeTest-")]
    if old:
        for deleted in admin.delete_topics(old).values():
            deleted.result(60)
        deadline = time.monotonic() + 60
        while set(old) & set(admin.list_topics(timeout=60).topics):
            if time.monotonic() > deadline:
                raise TimeoutError("the topics of the last run are still there")
            time.sleep(0.2)
    new = [NewTopic(name, _PARTITIONS, 3) for name in TOPICS]
    for created in admin.create_topics(new).values():
        created.result(60)
