"""Programs that write the lines of a file to topics: log shippers, and jobs of Flink and Spark."""

import json
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from tests.go import go_program
from tests.interop import syslog_ng
from tests.interop.programs import Programs

_RUN_S: Final = 380

Addresses = Mapping[str, str]
"""The address of the broker by topic."""
Reports = Mapping[str, list[str]]
"""The failures that a program reports, by topic."""


def _java(
    program: Programs, name: str, lines: Path, addresses: Addresses, *arguments: str
) -> Reports:
    """Run a program that prints a topic, an exception and its message for each failure."""
    reports: dict[str, list[str]] = {}
    for line in _output(program.command(f"{name}.java"), lines, addresses, *arguments):
        topic, exception, message = line.split("\t")
        reports.setdefault(topic, []).append(f"{exception}: {message}")
    return reports


def _log4j(lines: Path, addresses: Addresses, *, sync: bool) -> Reports:
    return _java(Programs.LOG4J, "Log4j", lines, addresses, str(sync).lower())


def _flink(lines: Path, addresses: Addresses) -> Reports:
    return _java(Programs.FLINK, "Flink", lines, addresses)


def _collector(lines: Path, addresses: Addresses) -> Reports:
    """Run the exporter; it reports by its log."""
    reports: dict[str, list[str]] = {}
    program = go_program("collector", ".", module="collector")
    for event in map(json.loads, _output(program, lines, addresses)):
        if event["level"] == "error":
            reports.setdefault(event["exporter"], []).append(json.dumps(event))
    return reports


def _syslog_ng(lines: Path, addresses: Addresses) -> Reports:
    """Run syslog-ng; it may report by its counters, and by its log."""
    counted, log = syslog_ng.send(syslog_ng.fetch(), lines, addresses)
    count = len(lines.read_text().splitlines())
    errors = [line for line in log.splitlines() if "error" in line]
    return {
        topic: [
            *(f"{of['dropped']} dropped" for _ in range(of["dropped"])),
            *(f"{of['written']} of {count} written" for _ in range(count - of["written"])),
            *(line for line in errors if topic in line),
        ]
        for topic, of in counted.items()
    }


def _spark(lines: Path, addresses: Addresses) -> Reports:
    """Run a job for each topic in the active session; what ends a job is its report."""
    session = SparkSession.getActiveSession()
    assert session is not None
    reports = {}
    for topic, address in addresses.items():
        writer = session.read.text(str(lines)).coalesce(1).write.format("kafka")
        try:
            writer.options(**{"kafka.bootstrap.servers": address, "topic": topic}).save()
        except Exception as error:  # of Java
            reports[topic] = [str(error)]
    return reports


def _output(command: list[str], lines: Path, addresses: Addresses, *arguments: str) -> list[str]:
    pairs = [part for topic, address in addresses.items() for part in (address, topic)]
    done = subprocess.run(
        [*command, str(lines), *arguments, *pairs],
        capture_output=True, text=True, check=False, timeout=_RUN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    return done.stdout.splitlines()


SHIPPERS: Final[Mapping[str, Callable[[Path, Addresses], Reports]]] = {
    "log4j2": partial(_log4j, sync=True),
    "log4j2 asynchronous": partial(_log4j, sync=False),
    "collector": _collector,
    "syslog-ng": _syslog_ng,
    "Flink": _flink,
    "Spark": _spark,
}
"""The programs by name. Each writes the lines of a file to topics."""
