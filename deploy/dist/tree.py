"""Writes the folder that wheels and the source distribution are built from: `make dist`.

`[tool.penstock] repository` in pyproject.toml is the public address, empty as long as there is
none. A package index shows README.md outside of the repository, so its links are made absolute;
without an address only their text is left, and pictures are left out.

Usage: python deploy/dist/tree.py FOLDER
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "deploy",
    "docs",
    "examples/policies",
    "examples/schemas",
    "native",
    "pyproject.toml",
    "share",
    "src",
)
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "_native.*.so", "target")
NOTICES: Final = "native/NOTICES.txt"
"""The licences of linked crates, which crates.py writes there before the wheel is built."""
_LICENSE: Final = 'license = "Apache-2.0"\n'
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)]*)\)")
_LINK: Final = re.compile(r"(?<!!)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\((?!https?:)([^)]*)\)")


def write_tree(folder: Path) -> None:
    """Copy what is published, with a README and links for a package index.

    Args:
        folder: It is replaced.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for part in _PARTS:
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target, ignore=_LEFT_OUT)
        else:
            shutil.copy2(ROOT / part, target)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    address = tomllib.loads(project)["tool"]["penstock"]["repository"]
    crate = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text(encoding="utf-8"))
    version = crate["package"]["version"].replace("-dev.", ".dev")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(for_an_index(readme, address, version), encoding="utf-8")
    project = project.replace(_LICENSE, f'{_LICENSE}license-files = ["LICENSE", "{NOTICES}"]\n', 1)
    (folder / "pyproject.toml").write_text(project + links(address, version), encoding="utf-8")


def links(address: str, version: str) -> str:
    """Return the table `[project.urls]`; empty without an address."""
    if not address:
        return ""
    pages = f"{address}/blob/v{version}"
    return (
        "\n[project.urls]\n"
        f'Repository = "{address}"\n'
        f'Documentation = "{pages}/docs/getting-started.md"\n'
        f'Changelog = "{pages}/CHANGELOG.md"\n'
    )


def for_an_index(text: str, address: str, version: str) -> str:
    """Return Markdown whose relative links lead into the repository, or are text without one."""
    if not address:
        text = _PICTURE.sub("", text)
        return _LINK.sub(lambda link: link[1], text)
    text = _PICTURE.sub(
        lambda picture: picture[0].replace(
            f"({picture[1]})", f"({address}/raw/v{version}/{picture[1]})"
        ),
        text,
    )
    return _LINK.sub(lambda link: f"[{link[1]}]({address}/blob/v{version}/{link[2]})", text)


if __name__ == "__main__":
    write_tree(Path(sys.argv[1]))
