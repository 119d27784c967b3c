"""Fetches a suite's sources by name and exact version, through the registries' own clients."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder
from tests.conformance.commands import BuildError, build

_FETCH_S: Final = 900


def cargo_home() -> Path:
    """Return where cargo keeps crates."""
    folder_of_user = os.environ.get("CARGO_HOME")
    return Path(folder_of_user) if folder_of_user else cache_folder() / "cargo"


def go_environment() -> dict[str, str]:
    """Return where Go keeps modules, and what it has built."""
    cache = cache_folder()
    return {"GOMODCACHE": str(cache / "go-mod"), "GOCACHE": str(cache / "go-build"),
            "GOFLAGS": "-modcacherw"}  # fmt: skip


def crate(name: str, version: str, sum_: str, folder: Path) -> Path:
    """Return a writable copy of a crate's files, fetching it the first time.

    Args:
        name: The crate.
        version: Exactly this version.
        sum_: The SHA-256 sum of its `.crate` file.
        folder: Where the copy is made.

    Raises:
        BuildError: It cannot be fetched, or is not what it was when its sum was taken.
    """
    copy = folder / f"{name}-{version}"
    if copy.is_dir():
        return copy
    # A package that depends on it: cargo fetches no crate by itself.
    package = folder / "fetch"
    (package / "src").mkdir(parents=True, exist_ok=True)
    (package / "src" / "lib.rs").touch()
    (package / "Cargo.toml").write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f'[dependencies]\n{name} = "={version.partition("+")[0]}"\n'
    )
    home = cargo_home()
    build(["cargo", "fetch"], folder / "fetch.log", folder=package, seconds=_FETCH_S,
          environment={"CARGO_HOME": str(home)})  # fmt: skip
    registry = home / "registry"
    check(_only(registry / "cache", f"{name}-{version}.crate"), sum_)
    _copy(_only(registry / "src", f"{name}-{version}"), copy)
    return copy


def go_module(name: str, version: str, sum_: str, folder: Path) -> Path:
    """Return a writable copy of a Go module's files, tests included, fetching it the first time.

    Args:
        name: The module.
        version: Exactly this version.
        sum_: Its `h1:` sum, as in a `go.sum`.
        folder: Where the copy is made.

    Raises:
        BuildError: It cannot be fetched, or is not what it was when its sum was taken.
    """
    copy = folder / f"{name.rpartition('/')[2]}-{version}"
    if copy.is_dir():
        return copy
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{name}@{version}"],
        cwd=folder, env={**os.environ, **go_environment()},
        capture_output=True, text=True, check=False, timeout=_FETCH_S,
    )  # fmt: skip
    found = _json(done.stdout)
    if done.returncode or "Dir" not in found:
        why = found.get("Error") or done.stderr.strip()
        raise BuildError(f"{name}@{version} cannot be fetched: {why}")
    if found.get("Sum") != sum_:
        raise BuildError(f"{name}@{version} has the sum {found.get('Sum')}, not {sum_}")
    _copy(Path(found["Dir"]), copy)
    return copy


def check(file: Path, sum_: str) -> None:
    """Compare a file with its SHA-256 sum.

    Raises:
        BuildError: It has another sum.
    """
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sum_:
        raise BuildError(f"{file.name} has the SHA-256 sum {found}, not {sum_}")


def _json(text: str) -> dict[str, str]:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def _only(folder: Path, name: str) -> Path:
    """Return the only path with a name below any registry."""
    found = sorted(folder.glob(f"*/{name}"))
    if not found:
        raise BuildError(f"cargo has fetched no {name} to {folder}")
    return found[0]


def _copy(source: Path, target: Path) -> None:
    """Copy a folder so that the copy is there as a whole or not at all, and can be written to."""
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(source, fresh)
    for path in [fresh, *fresh.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    fresh.rename(target)
