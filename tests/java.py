"""Compiles a Java program of the tests against Kafka's classes, and returns its command line."""

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import Artifacts, cache_folder, java
from penstock.kafka.local import class_path
from tests.class_archives import kafka_options

QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for short JVM processes, for which the optimizing compiler does not pay off."""


def program(source: Path, *, log_level: str = "off", classes: str = "") -> list[str]:
    """Compile a program if it has changed; return its command line.

    Args:
        source: The program.
        log_level: The level of its log, on stderr.
        classes: The class path it needs; by default that of the Kafka under test.
    """
    folder = cache_folder() / "interop-classes"
    used = classes or class_path()
    folder.mkdir(parents=True, exist_ok=True)
    compiled = folder / f"{source.stem}.class"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in another process may want the same
        if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
            compiler = shutil.which("javac") or str(Path(java()).parent / "javac")
            subprocess.run(
                [compiler, "-encoding", "UTF-8", "-cp", used, "-d", str(folder),
                 str(source)],
                check=True,
                timeout=300,
            )  # fmt: skip
    archive = () if classes else kafka_options(Artifacts.KAFKA)
    return [java(), "-Xmx256m", *QUICK, *archive,
            f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
            "-cp", f"{used}:{folder}", source.stem]  # fmt: skip
