"""Short names of policies: the ready-made ones, and those that are installed.

An installed one is an entry point of the group `penstock.policies`; nothing is imported to find it.
"""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import Final, NamedTuple

from penstock.configuration import values
from penstock.configuration.policy_classes import class_of_own

GROUP: Final = "penstock.policies"
"""The entry point group, and the package of the ready-made ones."""


class Installed(NamedTuple):
    """An installed policy: an entry point of the group `penstock.policies`."""

    name: str
    class_name: str
    distribution: str


def own_policies() -> dict[str, str]:
    """Return the classes of the ready-made policies that can have a name, by short name."""
    found = {}
    for name in importlib.import_module(GROUP).__all__:  # imported where there is a name
        class_name = f"{GROUP}.{name}"
        try:
            class_of_own(class_name)
        except ValueError:
            continue  # it judges topics
        found[name] = class_name
    return found


def installed_policies() -> list[Installed]:
    """Return the policies that are installed in this environment, by short name."""
    return sorted(
        Installed(
            one.name,
            f"{one.module}:{one.attr}" if one.attr else one.module,
            one.dist.name if one.dist is not None else "",
        )
        for one in entry_points(group=GROUP)
    )


def class_of_type(given: str) -> str:
    """Return the class that `policies.<name>.type` means. A ready-made one wins its short name.

    Raises:
        ValueError: It means none; the text completes "<key> must be ...".
    """
    if "." in given or ":" in given:
        return values.class_name(given)
    own = own_policies()
    if given in own:
        return own[given]
    installed = installed_policies()
    found = {one.class_name: one for one in installed if one.name == given}
    if len(found) > 1:
        wheels = " and ".join(sorted(one.distribution for one in found.values()))
        raise ValueError(f"package.module.Class, since {wheels} have a policy of this short name")
    if found:
        return next(iter(found))
    close = difflib.get_close_matches(given, [*own, *(one.name for one in installed)], n=1)
    raise ValueError(what_type_is() + (f" (did you mean {close[0]}?)" if close else ""))


def what_type_is() -> str:
    """Return what a type may be, for errors."""
    names = sorted({*own_policies(), *(one.name for one in installed_policies())})
    return f"package.module.Class, or the short name of a policy: {', '.join(names)}"
