"""Finds the files that users' classes come from, in a process that imports the classes.

`python -m penstock.engine.plans.imported_files` is that process; see `outcome_digest`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.declared_keys import VALIDATION
from penstock.configuration.processes.bounded import run_module
from penstock.configuration.processes.parent import end_with_parent
from penstock.engine.plans.files_below import CODE, DATA, NotKnownError, files_below
from penstock.engine.plans.loading import ClassPath, load_class, search_first

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from penstock.configuration.processes.bounded import Imports

_TIMEOUT_S: Final = 60.0
_PACKAGE: Final = "penstock"
INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages: their versions are compared."""
_READ_ELSEWHERE: Final = ("registry", "key_from")
"""Attributes by which a class has a built-in policy read a registry, a file or a variable."""


def imported_files(
    classes: Mapping[str, str],
    file: Path,
    class_path: Sequence[Path],
    imports: Imports | None = None,
) -> dict[str, Path]:
    """Return the files of all modules that users' classes import, without Python's own.

    Args:
        classes: Class names by the key of the configuration that names them.
        file: The configuration file.
        class_path: The folders of `record.validation.policy.class.path`.
        imports: Can end the process.

    Returns:
        The files by a name that does not depend on where they are; besides the modules, others that
        a function may import or read later: those in the same folders and, of packages that are not
        installed, all of them; and the files that attributes of the classes name.

    Raises:
        NotKnownError: The process ended without a result, or a class reads more than files.
    """
    request = json.dumps([dict(classes), str(file), [str(path) for path in class_path]])
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            answer = Path(folder) / "answer.json"
            run_module(__name__, [request, str(answer)], _TIMEOUT_S, imports=imports)
            paths_by_name, why_not = json.loads(answer.read_bytes())
    except (OSError, ValueError, subprocess.SubprocessError):
        raise NotKnownError("the files of classes cannot be found") from None
    if why_not:
        raise NotKnownError(why_not)
    return {name: Path(path) for name, path in paths_by_name.items()}


def _files_here(
    classes: Mapping[str, str], file: Path, class_path: Sequence[Path]
) -> dict[str, str]:
    """Return what `imported_files` does; the classes are imported here."""
    search_first(file.parent)
    files: dict[str, str] = {}
    for key, name in classes.items():
        is_apart = class_path and key.startswith(VALIDATION)
        space = ClassPath(class_path) if is_apart else None
        cls = load_class(name, key=key, file=file, space=space)
        for attribute in _READ_ELSEWHERE:
            if getattr(cls, attribute, None):
                raise NotKnownError(f"{name} has the attribute {attribute}")
        files |= _named_by(cls, name, file.parent)
    folders: dict[Path, str] = {}
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name != "__main__" and not _is_known_otherwise(name, Path(path)):
            files[f"{name} {Path(path).suffix}"] = str(path)
            folders.setdefault(Path(path).parent, name)
            if "." not in name and not INSTALLED & set(Path(path).parts):
                files |= _of_package(name, module)
    for folder, name in folders.items():
        others = (other for other in folder.glob("*.py") if other.is_file())
        files |= {f"{name}/{other.name}": str(other) for other in others}
    return files


def _named_by(cls: type, name: str, folder: Path) -> dict[str, str]:
    """Return the files that attributes of a class name."""
    files = {}
    for owner in cls.__mro__:
        for attribute, value in vars(owner).items():
            if isinstance(value, str) and value and not attribute.startswith("__"):
                try:
                    is_file = (folder / value).is_file()
                except (OSError, ValueError):
                    continue  # no name that a file can have
                if is_file:
                    files[f"{name}.{attribute}"] = str(folder / value)
    return files


def _of_package(name: str, module: ModuleType) -> dict[str, str]:
    """Return all modules of a package, and the files of data beside them."""
    places: Sequence[Any] = list(getattr(module, "__path__", ()))
    return {
        file_name: str(path)
        for number, place in enumerate(places)
        for file_name, path in files_below(Path(place), f"{name} {number}", CODE | DATA)
    }


def _is_known_otherwise(name: str, path: Path) -> bool:
    """Whether a module is Penstock's, or of Python's own library."""
    if name.partition(".")[0] == _PACKAGE:
        return True
    return any(
        path.is_relative_to(place) and not INSTALLED & set(path.relative_to(place).parts)
        for place in _python_folders()
    )


@cache
def _python_folders() -> frozenset[Path]:
    """Return the folders of Python's own library; to find them takes long for each module."""
    return frozenset(Path(sysconfig.get_path(path_name)) for path_name in ("stdlib", "platstdlib"))


def main(request: str, answer: str) -> None:
    """Answer one request."""
    classes, file, class_path = json.loads(request)
    paths_by_name: dict[str, str] = {}
    why_not = ""
    try:
        paths_by_name = _files_here(classes, Path(file), list(map(Path, class_path)))
    except (ConfigurationError, NotKnownError) as error:
        why_not = str(error)
    Path(answer).write_text(json.dumps([paths_by_name, why_not]), "utf-8")
    # A class may have started threads that are not daemons.
    os._exit(0)


if __name__ == "__main__":
    end_with_parent()
    main(*sys.argv[1:])
