"""Whether a policy overrides a method that judges, or only inherits those of its interface."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERFACES: Final = "penstock.policy."
"""Where the interfaces are defined; ready-made policies are in `penstock.policies`."""
_OURS: Final = "penstock."
_CLOSE: Final = 0.7


def check_overriding(instance: Any, names: Sequence[str]) -> None:
    """Check that an instance does not inherit all methods that judge from its interface.

    Those of an interface raise `NotImplementedError`, so that every batch would fail.

    Args:
        instance: The policy, configured.
        names: The methods that judge; the policy needs one of them.

    Raises:
        TypeError: It overrides none. The text names the method that was probably meant.
    """
    if all(_is_of_interface(instance, name) for name in names):
        raise TypeError(f"overrides no {_listed(names)}" + hint_of(type(instance), names))


def hint_of(cls: type, names: Sequence[str]) -> str:
    """Return a question that names a method of a class that is nearly one of `names`, or nothing.

    Args:
        cls: The class that lacks them.
        names: The methods that it should have one of.
    """
    for base in cls.__mro__:
        if _is_interface(base):
            continue
        own = [name for name, value in vars(base).items() if callable(value)]
        for name in names:
            close = difflib.get_close_matches(name, own, n=1, cutoff=_CLOSE)
            if close:
                return f"; it has {close[0]}(): did you mean {name}()?"
    return ""


def adds_methods(cls: type) -> bool:
    """Return whether a class adds methods to those of Penstock that it derives from.

    These may look at other parts of a record.
    """
    return any(
        callable(value) and not name.startswith("__")
        for base in cls.__mro__
        if not base.__module__.startswith(_OURS)
        for name, value in vars(base).items()
    )


def _is_of_interface(instance: Any, name: str) -> bool:
    """Return whether a method is inherited from an interface, or missing next to such a method."""
    if name in getattr(instance, "__dict__", ()):
        return False
    owner = next((base for base in type(instance).__mro__ if name in vars(base)), None)
    if owner is None:
        return not callable(getattr(instance, name, None))
    return _is_interface(owner)


def _is_interface(cls: type) -> bool:
    return cls.__module__.startswith(_INTERFACES)


def _listed(names: Sequence[str]) -> str:
    return "method " + " or ".join(f"{name}()" for name in names)
