"""Java, and Java artifacts by their Maven coordinates, fetched once through jgo.

`python -m penstock.kafka.artifacts` fetches all of them, which is what `make setup` does.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[str], None]

_JAVA_LEAST: Final = 17
_ATTEMPTS: Final = 4
_SUMS: Final = Path(__file__).with_suffix(".sha256")
"""The SHA-256 sums of the artifacts, by their paths in a Maven repository."""


def kafka_artifacts(version: str) -> str:
    """Return the artifacts of a version of Kafka: `group:artifact:version`, joined by `+`."""
    return (
        f"org.apache.kafka:kafka_2.13:{version}+org.apache.kafka:kafka-tools:{version}"
        "+org.slf4j:slf4j-simple:1.7.36"
    )


class Artifacts(StrEnum):
    """The artifacts: `group:artifact:version`, several joined by `+`."""

    KAFKA = kafka_artifacts("4.4.0")


class ArtifactError(UnavailableError):
    """Java is missing or too old, or an artifact cannot be fetched."""


def cache_folder() -> Path:
    """Return the folder for downloads.

    It is `PENSTOCK_CACHE`; without that, in a clone, that into which `make` has fetched; and
    `penstock` in the user's cache otherwise.
    """
    folder = os.environ.get("PENSTOCK_CACHE")
    if folder:
        return Path(folder)
    of_clone = Path(__file__).parents[3] / ".cache"
    if (of_clone / "maven").is_dir():
        return of_clone
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def class_path(
    coordinates: str, report: Report | None = None, *, may_be_unlisted: bool = False
) -> str:
    """Return the Java class path of artifacts, fetching them the first time.

    Args:
        coordinates: One of `Artifacts`.
        report: Takes a line now and then while they are fetched.
        may_be_unlisted: Whether files without a listed sum are used, for tests with a version of
            Kafka that is requested.

    Raises:
        ArtifactError: They cannot be fetched, or a file does not match its sum.
    """
    folder = cache_folder() / "maven"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching the same
        if fetched := _fetched(coordinates):
            return os.pathsep.join(fetched)
        jars = _resolve(coordinates, folder, report or _silent)
        for jar in jars:
            if not may_be_unlisted or _is_listed(Path(jar), folder):
                _check(Path(jar), folder)
        listing = _listing(coordinates)
        fresh = listing.with_suffix(".new")
        fresh.write_text("\n".join(jars))
        fresh.replace(listing)
    return os.pathsep.join(jars)


def is_fetched(coordinates: str) -> bool:
    """Return whether artifacts are here, so that `class_path` fetches nothing.

    Args:
        coordinates: One of `Artifacts`.
    """
    return bool(_fetched(coordinates))


def _fetched(coordinates: str) -> list[str]:
    """Return the jars of artifacts; an empty list while a jar is missing."""
    listing = _listing(coordinates)
    if not listing.exists():
        return []
    jars = listing.read_text().splitlines()
    return jars if all(Path(jar).is_file() for jar in jars) else []


def _listing(coordinates: str) -> Path:
    """Return the file that names the jars of artifacts."""
    name = hashlib.sha256(coordinates.encode()).hexdigest()[:16]
    return cache_folder() / "maven" / f"{name}.classpath"


def archive(coordinates: str, report: Report | None = None) -> Path:
    """Return a file of an artifact, without its dependencies; fetch it the first time.

    Args:
        coordinates: `group:artifact:version:packaging:classifier`.
        report: Takes a line before it is fetched.

    Raises:
        ArtifactError: It cannot be fetched, or does not match its sum.
    """
    folder = cache_folder() / "maven"
    folder.mkdir(parents=True, exist_ok=True)
    group, artifact, version, packaging, classifier = coordinates.split(":")
    file = folder.joinpath(
        *group.split("."), artifact, version, f"{artifact}-{version}-{classifier}.{packaging}"
    )
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be fetching the same
        if not file.exists():
            _fetch(coordinates, folder, report or _silent)
        _check(file, folder)
    return file


def _fetch(coordinates: str, folder: Path, report: Report) -> None:
    group, artifact, version, packaging, classifier = coordinates.split(":")
    component = _maven(coordinates, folder).project(group, artifact).at_version(version)
    report(f"fetching {coordinates}")
    try:
        component.artifact(classifier=classifier, packaging=packaging).resolve()
    except Exception as error:
        raise ArtifactError(
            f"{coordinates} cannot be fetched from the Maven registry: "
            f"{type(error).__name__}: {error}"
        ) from None


def _maven(coordinates: str, folder: Path) -> Any:
    """Return the fetcher for a folder."""
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - an extra
    except ImportError:
        raise ArtifactError(
            f"jgo is needed to fetch {coordinates}: pip install 'penstock-kafka[local]'"
        ) from None
    return MavenContext(repo_cache=folder, local_repos=[], timeout=60)


def _check(jar: Path, folder: Path) -> None:
    """Compare a file with its sum; delete a file that does not match."""
    name = jar.relative_to(folder).as_posix()
    expected = _sums().get(name)
    with jar.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    if checksum == expected:
        return
    jar.unlink()
    if expected is None:
        raise ArtifactError(f"{name} is rejected: {_SUMS.name} has no checksum for it")
    raise ArtifactError(
        f"{name}: the registry returned a file with the SHA-256 sum {checksum} instead of "
        f"{expected} ({_SUMS.name}); it is rejected"
    )


def _is_listed(jar: Path, folder: Path) -> bool:
    return jar.relative_to(folder).as_posix() in _sums()


@cache
def _sums() -> dict[str, str]:
    lines = _SUMS.read_text().splitlines()
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def _silent(_line: str) -> None:
    """Report nothing."""


def _resolve(coordinates: str, folder: Path, report: Report) -> list[str]:
    context = _maven(coordinates, folder)
    from jgo.maven import Dependency, PythonResolver  # noqa: PLC0415 - an extra

    dependencies = []
    for coordinate in coordinates.split("+"):
        group, artifact, version = coordinate.split(":")
        dependencies.append(
            Dependency(context.project(group, artifact).at_version(version).artifact())
        )
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            report("fetching " + ", ".join(coordinates.split("+")))
            _, resolved_dependencies = PythonResolver().resolve(dependencies)
            needed = [
                *dependencies,
                *(
                    dependency
                    for dependency in resolved_dependencies
                    if dependency.scope in {"compile", "runtime"}
                ),
            ]
            jars: dict[str, None] = {}
            for number, dependency in enumerate(needed, 1):
                jar = dependency.artifact.resolve()
                report(f"  {number} of {len(needed)}: {jar.name}")
                jars[str(jar)] = None
            return list(jars)
        except Exception as error:
            # The errors of a download; received bytes stay in the cache.
            reason = f"{type(error).__name__}: {error}"
            report(f"  {reason}")
            time.sleep(attempt)
    raise ArtifactError(f"{coordinates} cannot be fetched from the Maven registry: {reason}")


def java() -> str:
    """Return the Java program.

    Raises:
        ArtifactError: Java is not installed, or is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not shutil.which(program):
        raise ArtifactError(
            f"Java {_JAVA_LEAST} or newer is needed; none is on the PATH or in JAVA_HOME"
        )
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', output.stderr)
    if match is None or int(match[1]) < _JAVA_LEAST:
        raise ArtifactError(
            f"Java {_JAVA_LEAST} or newer is needed; {program} is "
            + (match[1] if match else "of unknown version")
        )
    return program


def main() -> int:
    """Fetch everything, with progress; return the exit code."""

    def report(line: str) -> None:
        print(line, flush=True)  # noqa: T201 - a program

    try:
        for coordinates in Artifacts:
            class_path(coordinates, report)
    except ArtifactError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
