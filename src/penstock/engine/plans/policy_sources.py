"""The sources of policies: the module of a class, and the modules that it imports.

Nothing is imported to find them: imports are read from the sources, as a worker would resolve them.
So this says the same in each process, and runs no code of a user. A module that is imported by a
name that is only known when it runs is not found.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from importlib import invalidate_caches
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec

_OWN: Final = "penstock"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_MODULES_MAX: Final = 1000
_BYTES_MAX: Final = 32 * 2**20
_CODE: Final = (".py", ".so", ".pyd")


class Sources(NamedTuple):
    """The sources of a class.

    Attributes:
        modules: The digests of modules, by name.
        packages: The versions of installed packages that they import, by name; empty for a module
            that is not there.
        unreadable: Modules whose source cannot be read, with the reasons.
    """

    modules: Mapping[str, str]
    packages: Mapping[str, str]
    unreadable: Sequence[str] = ()


class PolicySources:
    """Finds sources, as they are now; each is read once."""

    def __init__(self, folders: Sequence[Path], search_path: Sequence[str] | None = None) -> None:
        """Prepare; nothing is read.

        Args:
            folders: The folders of policies, which are searched first.
            search_path: The folders that are searched then; by default `sys.path`.
        """
        invalidate_caches()  # files may be newer than what was found before
        self._folders = [str(folder) for folder in folders]
        self._path = list(sys.path if search_path is None else search_path)
        self._modules: dict[str, _Module | None] = {}
        self._packages: dict[str, Mapping[str, str]] = {}
        self._remaining_bytes = _BYTES_MAX

    def of_class(self, name: str) -> Sources:
        """Return the sources of a class.

        Args:
            name: `package.module.Class` or `package.module:Class`.
        """
        module_name, _, _ = name.replace(":", ".").rpartition(".")
        modules: dict[str, str] = {}
        packages: dict[str, str] = {}
        unreadable: list[str] = []
        pending = list(_with_parents(module_name))
        visited: set[str] = set()
        while pending:
            name = pending.pop()
            top = name.partition(".")[0]
            if name in visited or top == _OWN:
                continue
            visited.add(name)
            module = self._module(name)
            if module is None:
                if self._module(top) is None:
                    packages |= self._packages_of(name)
                continue  # otherwise a name within a module, or a folder without __init__.py
            if module.why_not or len(modules) == _MODULES_MAX:
                unreadable.append(f"{name}: {module.why_not or 'too many modules'}")
                continue
            if module.digest:
                modules[name] = module.digest
            pending += module.imports
        return Sources(modules, packages, tuple(sorted(unreadable)))

    def _module(self, name: str) -> _Module | None:
        """Return a module that is not of an installed package, nor of Python; otherwise None."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> _Module | None:
        parent, _, _ = name.rpartition(".")
        folders: Sequence[str]
        if not parent:
            spec = _find(name, self._folders)
            if spec is None and name not in sys.stdlib_module_names:
                spec = _find(name, self._path)
                if spec is not None and _is_installed(spec):
                    return None
        else:
            package = self._module(parent)
            folders = package.folders if package is not None else ()
            # By its last part: Python would look the parts of a namespace up among its modules.
            spec = _find(name.rpartition(".")[2], folders) if folders else None
        if spec is None:
            return None
        folders = list(spec.submodule_search_locations or ())
        if spec.origin is None or spec.loader is None:
            return _Module("", folders) if folders else None
        if not spec.origin.endswith(_CODE):
            return _Module("", folders, why_not="has no source")
        try:
            data: bytes = spec.loader.get_data(spec.origin)  # type: ignore[attr-defined]
        except (OSError, AttributeError) as error:
            return _Module("", folders, why_not=getattr(error, "strerror", None) or "no source")
        self._remaining_bytes -= len(data)
        if self._remaining_bytes < 0:
            return _Module("", folders, why_not="the modules are too large")
        imports: tuple[str, ...] = ()
        if spec.origin.endswith(".py"):
            imports = tuple(_imports(data, name if folders else parent))
        return _Module(hashlib.sha256(data).hexdigest(), folders, imports)

    def _packages_of(self, name: str) -> Mapping[str, str]:
        """Return the versions of the installed packages that have a module, by their names."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return {}
        spec = _find(top, self._path)
        # Of a namespace, such as `google`, each package has a part.
        is_shared = spec is not None and spec.origin is None
        key = ".".join(name.split(".")[:2]) if is_shared else top
        if is_shared and key == top:
            return {}
        if key not in self._packages:
            self._packages[key] = dict(_owners(key, self._path)) or {key: ""}
        return self._packages[key]


class _Module(NamedTuple):
    """A module as it is on disk; one without a digest is only a folder."""

    digest: str
    folders: Sequence[str]
    imports: Sequence[str] = ()
    why_not: str = ""


def _find(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, list(folders))
    except (ImportError, OSError, ValueError):
        return None


def _is_installed(spec: ModuleSpec) -> bool:
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(_INSTALLED & set(Path(place).parts) for place in places)


def _owners(name: str, search_path: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and version of each distribution that has a module."""
    path = name.replace(".", "/")
    for distribution in distributions(path=list(search_path)):
        top_levels = (distribution.read_text("top_level.txt") or "").split()
        listed = "" if path in top_levels else f"\n{distribution.read_text('RECORD') or ''}"
        if path in top_levels or f"\n{path}/" in listed or f"\n{path}." in listed:
            yield str(distribution.name).lower(), distribution.version


def _with_parents(name: str) -> Iterator[str]:
    """Yield a module's name, and those of the packages that it is in."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Yield the names that may be modules in the imports of a source, wherever these stand.

    Args:
        package: That of the module, to which relative imports are relative.
    """
    try:
        nodes = ast.walk(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # it cannot be imported
    for node in nodes:
        for name in _names_in(node, package):
            yield from _with_parents(name)


def _names_in(node: Any, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package
        for _ in range(node.level - 1):
            base = base.rpartition(".")[0]
        parts = [base] if node.level else []
        module = ".".join(filter(None, [*parts, node.module]))
        if module:
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names if alias.name != "*")
        else:
            yield from (alias.name for alias in node.names if node.level and alias.name != "*")
