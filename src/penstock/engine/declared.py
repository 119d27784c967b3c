"""Asks a user's class which topic level keys it declares: `python -m penstock.engine.declared`.

A process of its own, which ends when it has answered; see `penstock.configuration.declared_keys`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import VALIDATION, as_configs, encode_declared
from penstock.engine.loading import ClassPath, load_class


def main(descriptor: int, request: str) -> None:
    """Answer one request: the class, the configuration file, the folders of the class path."""
    name, file, folders = json.loads(request)
    sys.path.insert(0, str(Path(file).parent))
    space = ClassPath([Path(folder) for folder in folders]) if folders else None
    answer = b""
    try:
        found = load_class(name, key=VALIDATION, file=Path(file), space=space)
        answer = encode_declared(as_configs(getattr(found, "topic_configs", ())))
    except ConfigurationError:
        pass  # workers cannot import it, either, and say why
    except ValueError as error:
        answer = encode_declared((), str(error))
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(answer)
    # A class may have started threads that are not daemons.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
