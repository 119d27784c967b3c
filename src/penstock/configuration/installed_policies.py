"""Short names of policies: those of the built-in and of the installed policies.

An installed policy is an entry point of the group `penstock.policies`; it is found without import.
"""

from __future__ import annotations

import difflib
import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import values
from penstock.configuration.policy_classes import PolicyClass, class_of_own

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP: Final = "penstock.policies"
"""The entry point group, and the package of the built-in policies."""


class InstalledPolicy(NamedTuple):
    """An installed policy: an entry point of the group `penstock.policies`."""

    name: str
    class_name: str
    distribution: str


def own_policies() -> dict[str, str]:
    """Return the classes of the built-in policies that can be named, by short name."""
    return {name: f"{GROUP}.{name}" for name in described_own_policies()}


@cache
def described_own_policies() -> Mapping[str, PolicyClass]:
    """Return the descriptions of the built-in policies that can be named, by short name."""
    described = {}
    for name in importlib.import_module(GROUP).__all__:  # slow: only if policies are named
        try:
            policy = class_of_own(f"{GROUP}.{name}")
        except ValueError:
            continue  # it judges topics
        if policy is not None:
            described[name] = policy
    return described


def reader_of_topic_key(key: str) -> str | None:
    """Return the class of the built-in policy that declares a topic level key, or None."""
    for name, policy in described_own_policies().items():
        if any(config.name == key for config in policy.topic_configs):
            return f"{GROUP}.{name}"
    return None


def installed_policies() -> list[InstalledPolicy]:
    """Return the policies that are installed in this environment, by short name."""
    return sorted(
        InstalledPolicy(
            entry_point.name,
            f"{entry_point.module}:{entry_point.attr}" if entry_point.attr else entry_point.module,
            entry_point.dist.name if entry_point.dist is not None else "",
        )
        for entry_point in entry_points(group=GROUP)
    )


def class_of_type(type_name: str) -> str:
    """Return the class of a `policies.<name>.type`. Built-in policies win over installed policies.

    Raises:
        ValueError: It means none; the text completes "<key> must be ...".
    """
    if "." in type_name or ":" in type_name:
        return values.class_name(type_name)
    own = own_policies()
    if type_name in own:
        return own[type_name]
    installed = installed_policies()
    candidates = {policy.class_name: policy for policy in installed if policy.name == type_name}
    if len(candidates) > 1:
        wheels = " and ".join(sorted(policy.distribution for policy in candidates.values()))
        raise ValueError(f"package.module.Class, since {wheels} have a policy of this short name")
    if candidates:
        return next(iter(candidates))
    close = difflib.get_close_matches(
        type_name, [*own, *(policy.name for policy in installed)], n=1
    )
    raise ValueError(what_type_is() + (f" (did you mean {close[0]}?)" if close else ""))


def what_type_is() -> str:
    """Return the valid types, for errors."""
    names = sorted({*own_policies(), *(policy.name for policy in installed_policies())})
    return f"package.module.Class, or the short name of a policy: {', '.join(names)}"
