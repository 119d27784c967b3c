"""From a class name in the configuration to the class itself."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
import traceback
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from penstock.configuration import ConfigurationError
from penstock.engine.not_now import unusable_by
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType


def load_class(name: str, *, key: str, file: Path, space: ClassPath | None = None) -> type:
    """Import a class.

    Args:
        name: `package.module.Class` or `package.module:Class`.
        key: The configuration key that names it, for the error.
        file: The configuration file, for the error.
        space: Where to look first, and apart from everything else.

    Raises:
        ConfigurationError: It cannot be imported, or is not a class.
    """
    separator = ":" if ":" in name else "."
    module_name, _, attribute = name.rpartition(separator)
    where = f"{file}: {key}: {name}"
    if not module_name:
        raise ConfigurationError(f"{where}: must be package.module.Class: the module is missing")
    try:
        module = space.load(module_name) if space else importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise ConfigurationError(
                f"{where}: there is no module {error.name}; Penstock searched "
                f"{file.parent} and the environment of {sys.executable}"
            ) from None
        raise ConfigurationError(f"{where}: {describe(error)}") from None
    except Exception as error:
        raise unusable_by(error, f"{where}: {describe(error)}") from None
    except SystemExit as error:
        raise ConfigurationError(f"{where}: the module ended the program: {error!r}") from None
    member = getattr(module, attribute, None)
    if not isinstance(member, type):
        if member is None:
            raise ConfigurationError(f"{where}: module {module_name} has no class {attribute}")
        raise ConfigurationError(
            f"{where}: must be a class; in module {module_name} its type is {type(member).__name__}"
        )
    return member


def search_first(folder: Path) -> None:
    """Look for modules in a folder before all others: in that of the configuration file."""
    name = str(folder)
    if sys.path[:1] == [name]:
        return
    if name in sys.path:  # from PYTHONPATH, for example, where others may come before it
        sys.path.remove(name)
    sys.path.insert(0, name)


def describe(error: BaseException) -> str:
    """Return the exception and its location, to help correct the configuration."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    # A single frame is Penstock's own: what it called was called in the wrong way.
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {error}{place}"


class PolicyMistakeError(PenstockError):
    """A policy returns or requests an invalid value. The text never holds record contents."""


def frames_of(error: BaseException) -> str:
    """Return where an exception was raised, without its text, which may contain record contents.

    The text of a `PolicyMistakeError` comes first.

    The policy's local variables are released first, so that there is memory after a MemoryError.
    """
    traceback.clear_frames(error.__traceback__)
    frames = " < ".join(
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[-12:])
    )
    return f"{error}; {frames}" if isinstance(error, PolicyMistakeError) else frames


class ClassPath:
    """Modules that are searched in some folders first, and are private to one policy (KIP-940).

    An imported module gets a special `__import__`, so imports inside functions
    go the same way long after loading. Modules whose top package the folders do not hold
    come from the process's own modules, as with a Java class loader that is child first.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [str(folder) for folder in folders]
        self._modules: dict[str, ModuleType] = {}
        self._lock = threading.RLock()
        self._depth = 0
        self._own_modules: dict[str, bool] = {}
        self._builtins = dict(vars(builtins))
        self._builtins["__import__"] = self._import

    def load(self, name: str) -> ModuleType:
        """Import a module by its full name."""
        with self._entered():
            return importlib.import_module(name)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the builtin's own names
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        with self._entered():
            return builtins.__import__(name, globals, locals, fromlist, level)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Put our modules and folders in front for the time of one import."""
        with self._lock:
            if self._depth:
                yield
                return
            self._depth += 1
            outer = {name: module for name, module in sys.modules.items() if self._owns(name)}
            for name in outer:
                del sys.modules[name]
            sys.modules.update(self._modules)
            finder = _Finder(self._folders, self._builtins)
            sys.meta_path.insert(0, finder)
            try:
                yield
            finally:
                sys.meta_path.remove(finder)
                self._modules = {n: m for n, m in sys.modules.items() if self._owns(n)}
                for name in self._modules:
                    del sys.modules[name]
                sys.modules.update(outer)
                self._depth -= 1

    def _owns(self, name: str) -> bool:
        """Return whether the folders, assumed unchanging, hold the module's top package."""
        top = name.partition(".")[0]
        if top not in self._own_modules:
            self._own_modules[top] = PathFinder.find_spec(top, self._folders) is not None
        return self._own_modules[top]


class _Finder:
    """Finds top level modules in the folders, and sets their builtins."""

    def __init__(self, folders: Sequence[str], namespace: Mapping[str, Any]) -> None:
        self._folders = folders
        self._namespace = namespace

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        spec = PathFinder.find_spec(name, path if path is not None else self._folders, target)
        if spec is None or not self._ours(spec) or spec.loader is None:
            return None
        execute = spec.loader.exec_module
        namespace = self._namespace

        def exec_module(module: ModuleType) -> None:
            module.__dict__["__builtins__"] = namespace
            execute(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _ours(self, spec: Any) -> bool:
        places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        return any(str(place).startswith(tuple(self._folders)) for place in places)
