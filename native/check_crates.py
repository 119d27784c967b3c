"""Compare the crates that Cargo has chosen with the list of those that are known.

Usage: python native/check_crates.py native/Cargo.lock native/crates.sha256

A lock file is not kept, because it carries the address of a registry. Cargo compares each crate
with the checksum that the registry has named; this compares that with a list of our own, which
`--write` makes of Cargo.lock.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def locked(lock_file: Path) -> dict[str, str]:
    """Return the checksums in a lock file by name and version; empty for one without.

    The crate itself, which comes from here, is left out.
    """
    packages = tomllib.loads(lock_file.read_text())["package"]
    return {
        f"{one['name']}-{one['version']}.crate": one.get("checksum", "")
        for one in packages
        if "source" in one or "checksum" in one
    }


def listed(sums: Path) -> dict[str, str]:
    """Return the checksums in a list, which is as `sha256sum` writes it."""
    lines = (line.split() for line in sums.read_text().splitlines())
    return {name: checksum for checksum, name in lines}


def complaints(chosen: dict[str, str], known: dict[str, str]) -> list[str]:
    """Say which of the chosen crates are not those of the list."""
    return [
        f"{name} is not in the list" if name not in known else f"{name} has another SHA-256 sum"
        for name, checksum in chosen.items()
        if not checksum or known.get(name) != checksum
    ]


def main() -> int:
    """Run the command; return its exit code."""
    lock_file, sums, *options = sys.argv[1:]
    chosen = locked(Path(lock_file))
    if options == ["--write"]:
        lines = (f"{checksum}  {name}\n" for name, checksum in sorted(chosen.items()))
        Path(sums).write_text("".join(lines))
        return 0
    wrong = complaints(chosen, listed(Path(sums)))
    for one in wrong:
        print(f"{sums}: {one}: it is not built", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
