"""Caches of an object's methods that end with the object.

An object that holds `lru_cache(size)(self.method)` is part of a cycle: it lives until Python's
collector reads all objects, which a gateway has it do seldom.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakMethod

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

Result = TypeVar("Result")


def cached_method(size: int, method: Callable[..., Result]) -> _lru_cache_wrapper[Result]:
    """Return a cache of the last results of a bound method.

    Args:
        size: How many results it keeps.
        method: A method of the object that holds the cache. The cache does not keep the object.
    """
    return lru_cache(size)(partial(_call, WeakMethod(method)))


def _call(method: WeakMethod[Callable[..., Result]], *args: object, **kwargs: object) -> Result:
    bound_method = method()
    if bound_method is None:
        raise ReferenceError("the object of the cached method has ended")
    return bound_method(*args, **kwargs)
