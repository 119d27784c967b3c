"""Policies that are passed as classes or instances, on their way to Spark's Python workers.

A class of a notebook, and of a module that is not installed, travels as its code, with all that it
uses of such modules: no executor needs them.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark import cloudpickle

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_cloudpickle: Final[Any] = cloudpickle
_OWN: Final = Path(__file__).resolve().parents[2]
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_SPARK_HOME: Final = "SPARK_HOME"


def pickled(policies: Mapping[str, Any]) -> bytes:
    """Return policies as bytes.

    Args:
        policies: Classes and instances, by name.

    Raises:
        ConfigurationError: One cannot be sent.
    """
    if not policies:
        return b""
    with _local_modules_by_value():
        for name, policy in policies.items():
            try:
                _cloudpickle.dumps(policy)
            except Exception as error:  # of any object that it holds
                raise ConfigurationError(
                    f"plan: policies: {name} cannot be sent to Spark's Python workers: "
                    f"{_place_of(policy)}{type(error).__name__}: {error}"
                ) from None
        data: bytes = _cloudpickle.dumps(dict(policies))
        return data


@contextmanager
def _local_modules_by_value() -> Iterator[None]:
    """Have what modules of the user's define sent as its code, wherever a policy uses it."""
    registered = _cloudpickle.list_registry_pickle_by_value()
    modules = [
        module
        for module in tuple(sys.modules.values())
        if isinstance(module, ModuleType)
        and _is_local(module)
        and module.__name__ not in registered
    ]
    for module in modules:
        _cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            _cloudpickle.unregister_pickle_by_value(module)


def _is_local(module: ModuleType) -> bool:
    """Return whether a module is a file of the user's that may be on this machine alone."""
    file = vars(module).get("__file__")
    if module.__name__ == "__main__" or module.__name__ not in sys.modules or not file:
        return False  # Spark sends it as its code anyway, or it is built in
    return not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _installed_folders())


@cache
def _installed_folders() -> frozenset[Path]:
    """Return the folders of Python, of installed packages (the user's, too) and of Spark."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in _LIBRARIES]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    folders.append(str(Path(pyspark.__file__).parents[1]))
    if home := os.environ.get(_SPARK_HOME):
        folders.append(str(Path(home, "python")))
    return frozenset((_OWN, *(Path(folder).resolve() for folder in folders)))


def _place_of(policy: Any) -> str:
    """Return which module of the user's, that of a policy uses as a whole, cannot be sent."""
    cls = policy if isinstance(policy, type) else type(policy)
    names = vars(sys.modules.get(cls.__module__, sys))
    for module in names.values():
        if isinstance(module, ModuleType) and _is_local(module):
            try:
                _cloudpickle.dumps(module)
            except Exception:  # as of the policy
                return f"the module {module.__name__}: "
    return ""
