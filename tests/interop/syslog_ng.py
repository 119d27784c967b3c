"""syslog-ng with its destination for Kafka, from Debian's packages, without an installation."""

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from penstock.kafka.artifacts import cache_folder
from tests.gateways import wait_until

_PACKAGES: Final = ("syslog-ng-core", "syslog-ng-mod-rdkafka")
_DEPENDS: Final = (
    *("apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"),
    *("--no-breaks", "--no-replaces", "--no-enhances"),
)
_FETCH_S: Final = 300
_RUN_S: Final = 120


class UnavailableError(Exception):
    """Debian's packages cannot be had here."""


class Sent(NamedTuple):
    """The counters and the log of syslog-ng.

    Attributes:
        counted: Its counters by topic: `processed`, `written`, `dropped`, `queued`.
        log: Its log.
    """

    counted: dict[str, dict[str, int]]
    log: str


def fetch() -> Path:
    """Return the folder of the unpacked files, with the libraries that are not installed.

    Raises:
        UnavailableError: apt has none of these packages, or is not there.
    """
    folder = cache_folder() / "interop-syslog-ng"
    if folder.is_dir():
        return folder
    if shutil.which("apt-get") is None:
        raise UnavailableError("there is no apt-get")
    downloads, fresh = folder.with_suffix(".downloads"), folder.with_suffix(".new")
    for old in (downloads, fresh):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir(parents=True)
    listed = _run(*_DEPENDS, *_PACKAGES).splitlines()
    libraries = {name for name in listed if name[:1].isalnum() and not _is_installed(name)}
    _run("apt-get", "--quiet", "download", *sorted({*_PACKAGES, *libraries}), folder=downloads)
    for package in downloads.glob("*.deb"):
        _run("dpkg", "--extract", str(package), str(fresh))
    shutil.rmtree(downloads)
    fresh.rename(folder)
    return folder


def _is_installed(package: str) -> bool:
    found = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package],
        capture_output=True, text=True, check=False, timeout=_FETCH_S,
    )  # fmt: skip
    return found.stdout == "installed"


def _run(*command: str, folder: Path | None = None) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_FETCH_S
    )
    if done.returncode:
        raise UnavailableError(f"{' '.join(command[:2])}: {done.stderr.strip()}")
    return done.stdout


def send(root: Path, lines: Path, addresses: Mapping[str, str]) -> Sent:
    """Send the lines of a file to topics.

    Args:
        root: The unpacked files of syslog-ng.
        lines: The file, in a folder where its own files may be.
        addresses: The addresses of brokers by topic.
    """
    folder, count = lines.parent, len(lines.read_text().splitlines())
    (folder / "settings").write_text(_settings(lines, addresses))
    (module,) = root.rglob("libkafka.so")
    libraries = sorted({str(found.parent) for found in root.rglob("*.so*")})
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(libraries)}
    files = {"-f": "settings", "-R": "persist", "-c": "control", "-p": "pid"}
    options = [part for option, name in files.items() for part in (option, str(folder / name))]
    log = folder / "log"

    def counts() -> dict[str, dict[str, int]]:
        done = subprocess.run(
            [root / "usr/sbin/syslog-ng-ctl", "stats", "-c", folder / "control"],
            env=environment, capture_output=True, text=True, check=False, timeout=_RUN_S,
        )  # fmt: skip
        return _by_topic(done.stdout)

    def has_sent() -> bool:
        of_topics = counts()
        return len(of_topics) == len(addresses) and all(
            of_topic["processed"] == count and not of_topic["queued"]
            for of_topic in of_topics.values()
        )

    with log.open("wb") as output:
        process = subprocess.Popen(
            [root / "usr/sbin/syslog-ng", "-F", "-e", "--no-caps",
             "--module-path", module.parent, *options],
            env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
        try:
            wait_until(has_sent, _RUN_S, what="the lines")
            counted = counts()
        finally:
            process.terminate()  # and it waits for what its clients still have
            process.wait(_RUN_S)
    return Sent(counted, log.read_text())


def _settings(lines: Path, addresses: Mapping[str, str]) -> str:
    destinations = (
        f'destination {{ kafka-c(topic("{topic}") bootstrap-servers("{address}") '
        f'message("$MSG")); }};'
        for topic, address in addresses.items()
    )
    source = f'source {{ file("{lines}" flags(no-parse)); }};'
    return "\n".join(
        ("@version: 3.38", "options { stats-level(1); };", "log {", source, *destinations, "};\n")
    )


def _by_topic(stats: str) -> dict[str, dict[str, int]]:
    """Return the counters of destinations by topic and by what they count."""
    counters: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(stats.splitlines(), delimiter=";"):
        if row["SourceName"].startswith("dst.kafka"):
            topic = row["SourceInstance"].removeprefix("kafka,")
            counters.setdefault(topic, {})[row["Type"]] = int(row["Number"])
    return counters
