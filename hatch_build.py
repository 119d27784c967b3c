"""Writes the part of the package's metadata that depends on where the project is published.

`[tool.penstock] repository` in pyproject.toml is the address, empty as long as there is none. A
package index shows README.md outside of the repository, so its links are made absolute; without an
address only their text is left, and pictures are left out.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE: Final = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)]*)\)")
_LINK: Final = re.compile(r"(?<!!)\[((?:!\[[^\]]*\]\([^)]*\)|[^\]])*)\]\((?!https?:)([^)]*)\)")


class Metadata(MetadataHookInterface):
    """The readme and the links of the package: `dynamic` in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `readme` and `urls`, which are none without an address."""
        root = Path(self.root)
        settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        address = settings["tool"]["penstock"]["repository"]
        version = re.search(
            r'__version__ = "(.*)"', (root / "src/penstock/__init__.py").read_text(encoding="utf-8")
        )
        assert version
        text = for_an_index((root / "README.md").read_text(encoding="utf-8"), address, version[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        pages = f"{address}/blob/v{version[1]}"
        metadata["urls"] = (
            {
                "Repository": address,
                "Documentation": f"{pages}/docs/getting-started.md",
                "Changelog": f"{pages}/CHANGELOG.md",
            }
            if address
            else {}
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
