"""Asks a user's class which topic level keys it declares, in the process that imports it.

`python -m penstock.engine.declared` is a process for that alone, which ends when it has answered;
see `penstock.configuration.declared_keys`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import VALIDATION, as_configs, encode_declared
from penstock.engine.loading import ClassPath, load_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.policy import TopicConfig


def declared_here(
    class_name: str, file: Path, class_path: Sequence[Path]
) -> tuple[TopicConfig, ...]:
    """Return what a class declares; it is imported here, as it is where policies run.

    Args:
        class_name: As the file names it.
        file: The configuration file.
        class_path: Where the class is looked for first.

    Returns:
        What it declares; nothing where it cannot be imported: whoever loads it says why.

    Raises:
        ConfigurationError: What it declares is not usable.
    """
    folder = str(file.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    space = ClassPath(class_path) if class_path else None
    try:
        found = load_class(class_name, key=VALIDATION, file=file, space=space)
    except ConfigurationError:
        return ()
    try:
        return as_configs(getattr(found, "topic_configs", ()))
    except ValueError as error:
        raise ConfigurationError(f"{file}: {VALIDATION}: {class_name}: {error}") from None


def main(descriptor: int, request: str) -> None:
    """Answer one request: the class, the configuration file, the folders of the class path."""
    name, file, folders = json.loads(request)
    try:
        answer = encode_declared(declared_here(name, Path(file), list(map(Path, folders))))
    except ConfigurationError as error:
        answer = encode_declared((), str(error))
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(answer)
    # A class may have started threads that are not daemons.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
