"""Names the crates that are linked into the extension, with their licences: `make dist`, `make sbom`.

Usage:
    cargo metadata --format-version 1 ... | python deploy/dist/crates.py notices FILE
    cargo metadata --format-version 1 ... | python deploy/dist/crates.py sbom FILE

`notices` writes the texts of their licences and notices. `sbom` adds them to a CycloneDX document,
with the SHA-256 sums of native/crates.sha256.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

SUMS: Final = Path(__file__).parents[2] / "native" / "crates.sha256"
_TEXTS: Final = re.compile(r"(?i)(licen[cs]e|copying|notice|unlicense)([-._].*)?")
_WITHOUT_TEXT: Final = "(The package of this crate has no text of its licence.)\n"


def linked(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages that a crate is linked with, by name and version.

    Crates that only run while it is built, such as macros and build scripts, are left out with what
    only they need.

    Args:
        metadata: What `cargo metadata` prints.
    """
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    reached, waiting = {root}, [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            number = dependency["pkg"]
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and number not in reached and not _is_macro(packages[number]):
                reached.add(number)
                waiting.append(number)
    crates = (packages[number] for number in reached - {root})
    return sorted(crates, key=lambda package: (package["name"], package["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def notices(crates: list[dict[str, Any]]) -> str:
    """Return the texts of the licences and notices of crates, each after the name of its crate."""
    parts = ["The extension penstock._native is linked with these Rust crates.\n"]
    for crate in crates:
        folder = Path(crate["manifest_path"]).parent
        # Code of others that a crate brings along, such as zstd's, is in a folder of the crate.
        files = sorted(
            file
            for file in (*folder.glob("*"), *folder.glob("*/*"))
            if _TEXTS.fullmatch(file.name) and file.is_file()
        )
        texts = [
            f"--- {file.relative_to(folder)}\n\n{file.read_text('utf-8', errors='replace')}"
            for file in files
        ]
        title = f"{crate['name']} {crate['version']} ({crate['license'] or 'no licence named'})"
        parts.append("\n".join(["=" * 80, title, "", *(texts or [_WITHOUT_TEXT])]))
    return "\n".join(parts)


def components(crates: list[dict[str, Any]], sums: dict[str, str]) -> list[dict[str, Any]]:
    """Return the components of CycloneDX for crates.

    Args:
        sums: SHA-256 sums by the name of a package file, such as `serde-1.0.0.crate`.
    """
    return [
        {
            "bom-ref": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "hashes": [
                {"alg": "SHA-256", "content": sums[f"{crate['name']}-{crate['version']}.crate"]}
            ],
            "licenses": _licences(crate["license"]),
            "name": crate["name"],
            "purl": f"pkg:cargo/{crate['name']}@{crate['version']}",
            "type": "library",
            "version": crate["version"],
        }
        for crate in crates
    ]


def _licences(expression: str | None) -> list[dict[str, Any]]:
    """Return a licence in SPDX's terms; Cargo also takes a slash for OR."""
    return [{"expression": expression.replace("/", " OR ")}] if expression else []


def add_to(file: Path, crates: list[dict[str, Any]]) -> None:
    """Add crates to the components of a CycloneDX document."""
    lines = (line.split() for line in SUMS.read_text(encoding="utf-8").splitlines())
    sums = {name: checksum for checksum, name in lines}
    document = json.loads(file.read_text(encoding="utf-8"))
    document["components"] += components(crates, sums)
    file.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _, command, name = sys.argv
    packages = linked(json.load(sys.stdin))
    if command == "notices":
        Path(name).write_text(notices(packages), encoding="utf-8")
    else:
        add_to(Path(name), packages)
