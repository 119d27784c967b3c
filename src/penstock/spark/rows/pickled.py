"""Policies that are passed as classes or instances, on their way to Spark's Python workers.

A class of a notebook, and of a module that is not installed, travels as its code: no executor needs
the module.
"""

from __future__ import annotations

import sys
import sysconfig
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

_INSTALLED: Final = tuple(
    Path(path).resolve()
    for name, path in sysconfig.get_paths().items()
    if name in {"stdlib", "platstdlib", "purelib", "platlib"}
)
_cloudpickle: Final[Any] = cloudpickle
_OWN: Final = Path(__file__).resolve().parents[2]


def pickled(policies: Mapping[str, Any]) -> bytes:
    """Return policies as bytes.

    Args:
        policies: Classes and instances, by name.

    Raises:
        ConfigurationError: One cannot be sent.
    """
    if not policies:
        return b""
    for name, policy in policies.items():
        with _by_value(policy):
            try:
                _cloudpickle.dumps(policy)
            except Exception as error:  # of any object that it holds
                raise ConfigurationError(
                    f"plan: policies: {name} cannot be sent to Spark's Python workers: "
                    f"{type(error).__name__}: {error}"
                ) from None
    with ExitStack() as modules:
        for policy in policies.values():
            modules.enter_context(_by_value(policy))
        data: bytes = _cloudpickle.dumps(dict(policies))
        return data


@contextmanager
def _by_value(policy: Any) -> Iterator[None]:
    """Have the class of a policy sent as its code, unless its module is installed."""
    cls = policy if isinstance(policy, type) else type(policy)
    module = sys.modules.get(cls.__module__)
    if module is None or not _is_local(module) or _is_registered(module):
        yield
        return
    _cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        _cloudpickle.unregister_pickle_by_value(module)


def _is_local(module: ModuleType) -> bool:
    """Return whether a module is a file of the user's that may be on this machine alone."""
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or not file:
        return False  # Spark sends it as its code anyway, or it is built in
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in (*_INSTALLED, _OWN))


def _is_registered(module: ModuleType) -> bool:
    return module.__name__ in _cloudpickle.list_registry_pickle_by_value()
