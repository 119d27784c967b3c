"""Compiles a Java program of the tests against Kafka's classes, and returns its command line."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.artifacts import cache_folder, java
from penstock.local import class_path

QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options for short JVM processes, for which the optimizing compiler does not pay off."""


def program(source: Path, *, log_level: str = "off", libraries: str = "") -> list[str]:
    """Compile a program if it has changed; return its command line.

    Args:
        source: The program.
        log_level: The level of its log, on stderr.
        libraries: A class path, after Kafka's own.
    """
    classes = cache_folder() / "interop-classes"
    used = os.pathsep.join(filter(None, (class_path(), libraries)))
    classes.mkdir(parents=True, exist_ok=True)
    compiled = classes / f"{source.stem}.class"
    with (classes / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in another process may want the same
        if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
            compiler = shutil.which("javac") or str(Path(java()).parent / "javac")
            subprocess.run(
                [compiler, "-encoding", "UTF-8", "-cp", used, "-d", str(classes),
                 str(source)],
                check=True,
                timeout=300,
            )  # fmt: skip
    return [java(), "-Xmx256m", *QUICK,
            f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}",
            "-cp", f"{used}:{classes}", source.stem]  # fmt: skip
