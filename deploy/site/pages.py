"""Put together what the site is made of, in the places that it has in this checkout.

The documents, and the files that they link to: so that each link leads where it leads in the
checkout, and mkdocs finds those that lead nowhere.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_LINK: Final = re.compile(r"\]\(([^)#:\s]+)[^)]*\)")


def put_together(folder: Path) -> None:
    """Copy the documents, and what they link to, into a folder that has nothing else afterwards.

    The folder may be a link, which `shutil.rmtree` does not follow.
    """
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*")):
        _copy(document, folder)
        if document.suffix == ".md":
            for link in _LINK.findall(document.read_text(encoding="utf-8")):
                linked = (document.parent / link).resolve()
                if linked.is_file() and linked.suffix != ".md":
                    _copy(linked, folder)


def _copy(file: Path, folder: Path) -> None:
    copy = folder / file.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copy)


if __name__ == "__main__":
    put_together(Path(sys.argv[1]))
