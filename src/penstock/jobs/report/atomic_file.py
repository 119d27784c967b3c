"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

TEMPORARY: Final = ".tmp"
"""How the names of files end that are not complete. They begin with a dot."""


def write_file(path: Path, text: str) -> None:
    """Write a file under a unique temporary name, and rename it.

    A process that reads `path` meanwhile, or writes it at the same time, sees a complete file.

    Raises:
        OSError: It cannot be written. No temporary file is left.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
