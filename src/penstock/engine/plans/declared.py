"""Reads which keys users' classes declare, in the process that imports them.

`python -m penstock.engine.plans.declared` is a process for that alone, which ends when it has
answered; see `penstock.configuration.declared_keys` and `penstock.configuration.policy_classes`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import VALIDATION, as_configs, encode_declared
from penstock.configuration.policy_classes import PolicyClass, encode_classes
from penstock.configuration.processes.parent import end_with_parent
from penstock.engine.plans.loading import ClassPath, load_class, search_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.policy import TopicConfig


def declared_here(
    class_name: str, file: Path, class_path: Sequence[Path]
) -> tuple[TopicConfig, ...]:
    """Return the keys that a class declares; import it in this process, as workers do.

    Args:
        class_name: As the file names it.
        file: The configuration file.
        class_path: Where the class is looked for first.

    Returns:
        The keys; none if it cannot be imported, because the process that loads it reports that.

    Raises:
        ConfigurationError: What it declares is not usable.
    """
    search_first(file.parent)
    space = ClassPath(class_path) if class_path else None
    try:
        cls = load_class(class_name, key=VALIDATION, file=file, space=space)
    except ConfigurationError:
        return ()
    try:
        return as_configs(getattr(cls, "topic_configs", ()))
    except ValueError as error:
        raise ConfigurationError(f"{file}: {VALIDATION}: {class_name}: {error}") from None


def classes_here(classes: Mapping[str, str], file: Path) -> Mapping[str, PolicyClass]:
    """Return descriptions of classes; import them in this process, as workers do.

    Args:
        classes: Class names by the key of the file that names them.
        file: The configuration file.

    Raises:
        ConfigurationError: A class cannot be imported, is not a policy of records, or its
            declarations are not usable.
    """
    search_first(file.parent)
    policy_classes: dict[str, PolicyClass] = {}
    for key, name in classes.items():
        cls = load_class(name, key=key, file=file)
        try:
            policy_classes[key] = PolicyClass.of(cls)
        except ValueError as error:
            raise ConfigurationError(f"{file}: {key}: {name} {error}") from None
    return policy_classes


def main(descriptor: int, arguments: Sequence[str]) -> None:
    """Answer one request: a validation policy, or `--classes` and any policies of records."""
    try:
        if arguments[0] == "--classes":
            classes, path = json.loads(arguments[1])
            answer = encode_classes(classes_here(classes, Path(path)))
        else:
            name, path, folders = json.loads(arguments[0])
            answer = encode_declared(declared_here(name, Path(path), list(map(Path, folders))))
    except ConfigurationError as error:
        text = str(error)
        is_of_any = arguments[0] == "--classes"
        answer = encode_classes({}, text) if is_of_any else encode_declared((), text)
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(answer)
    # A class may have started threads that are not daemons.
    os._exit(0)


if __name__ == "__main__":
    end_with_parent()
    main(int(sys.argv[1]), sys.argv[2:])
