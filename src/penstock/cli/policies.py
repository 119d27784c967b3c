"""List the policies that you can name, with their keys.

It lists built-in policies, installed policies (entry points of the group `penstock.policies`), and
with FILE those that FILE names. Your own classes are imported in separate processes. The command
contacts nothing.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.cli.failures import ExitCode
from penstock.cli.output.printable import printable
from penstock.configuration import ConfigurationError, load_configuration
from penstock.configuration.installed_policies import GROUP, installed_policies, own_policies
from penstock.configuration.interfaces import INTERCEPTORS, RECORDS, VALIDATION, VALIDATORS
from penstock.configuration.policy_classes import PolicyClass, class_of_own, classes_of_user

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

_INTERFACES: Final = {
    INTERCEPTORS: "KIP-905, interceptor",
    RECORDS: "KIP-686, batches",
    VALIDATORS: "KIP-729, records",
    VALIDATION: "KIP-940, records",
}
_WIDTH: Final = 100


class ListedPolicy(NamedTuple):
    """A policy of the list.

    Attributes:
        name: Its name in FILE, or its short name.
        origin: `built-in`, `installed` or `file`.
        description: What its class says; None where it cannot be used.
        distribution: The package that it is installed with; empty otherwise.
        config_names: The keys that FILE has for it.
        mode: Its mode in FILE.
        error: Why it cannot be used.
    """

    name: str
    class_name: str
    origin: str
    description: PolicyClass | None
    distribution: str = ""
    config_names: Sequence[str] = ()
    mode: str | None = None
    error: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="a configuration file; its policies are listed, too",
    )
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    listed = [*_built_in(), *_installed(), *(_of_file(options.file) if options.file else ())]
    if options.json:
        print(json.dumps({"policies": [as_json(policy) for policy in listed]}, indent=1))
        return ExitCode.DONE
    headings = {
        "built-in": "built-in",
        "installed": f"installed (entry point group {GROUP})",
        "file": f"of {options.file}",
    }
    for origin, heading in headings.items():
        some = [policy for policy in listed if policy.origin == origin]
        if origin == "file" and options.file is None:
            continue
        print(heading)
        for policy in some:
            print("\n".join(printable(line) for line in lines(policy)))
        if not some:
            print("  none")
    return ExitCode.DONE


def _built_in() -> Iterator[ListedPolicy]:
    for name, class_name in sorted(own_policies().items()):
        yield ListedPolicy(name, class_name, "built-in", class_of_own(class_name))


def _installed() -> Iterator[ListedPolicy]:
    for name, class_name, distribution in installed_policies():
        key = f"{name} of {distribution}"
        try:
            policy_class = classes_of_user({key: class_name}, Path(GROUP))[key]
        except ConfigurationError as error:
            why = str(error)
            yield ListedPolicy(name, class_name, "installed", None, distribution, error=why)
        else:
            yield ListedPolicy(name, class_name, "installed", policy_class, distribution)


def _of_file(file: str) -> Iterator[ListedPolicy]:
    configuration = load_configuration(file)
    others = {
        f"policies.{policy.name}.type": policy.class_name
        for policy in configuration.named_policies
        if class_of_own(policy.class_name) is None
    }
    looked_at = classes_of_user(others, configuration.path) if others else {}
    for policy in configuration.named_policies:
        policy_class = class_of_own(policy.class_name) or looked_at[f"policies.{policy.name}.type"]
        config_names = sorted(policy.configs)
        yield ListedPolicy(
            policy.name,
            policy.class_name,
            "file",
            policy_class,
            config_names=config_names,
            mode=policy.mode,
        )


def lines(policy: ListedPolicy) -> Iterator[str]:
    """Yield lines for people. Values that FILE has are not shown: they may be secrets."""
    suffix = f", {policy.distribution}" if policy.distribution else ""
    if policy.description is None:
        yield f"  {policy.name}  {policy.class_name}{suffix}"
        yield f"    cannot be used: {policy.error}"
        return
    interface = _INTERFACES[policy.description.interface]
    yield f"  {policy.name}  {policy.class_name}  ({interface}{suffix})"
    yield from _wrapped(policy.description.documentation, 4)
    for name, about in _keys(policy.description):
        is_set = "; set in the file" if name in policy.config_names else ""
        yield f"    {name}  {about['type']}, {_default(about)}{is_set}"
        values = f" One of {', '.join(about['valid_values'])}." if about["valid_values"] else ""
        yield from _wrapped(about["documentation"] + values, 6)
    declared_keys = {name for name, _ in _keys(policy.description)}
    yield from (
        f"    {key}  set in the file" for key in policy.config_names if key not in declared_keys
    )
    if policy.mode is not None:
        yield f"    mode={policy.mode}"


def _default(about: dict[str, Any]) -> str:
    if about["required"]:
        return "required"
    return "no default" if about["default"] is None else f"default {about['default'] or 'empty'}"


def _wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(text, _WIDTH, initial_indent=space, subsequent_indent=space)


def as_json(policy: ListedPolicy) -> dict[str, Any]:
    """Return it for programs."""
    policy_class = policy.description
    return {
        "name": policy.name,
        "class": policy.class_name,
        "origin": policy.origin,
        "distribution": policy.distribution or None,
        "interface": policy_class.interface if policy_class is not None else None,
        "documentation": policy_class.documentation if policy_class is not None else "",
        "keys": [{"name": n, **about} for n, about in _keys(policy_class)]
        if policy_class is not None
        else [],
        "set": list(policy.config_names),
        "mode": policy.mode,
        "error": policy.error or None,
    }


def _keys(policy_class: PolicyClass) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys that a class declares; those of topics are, of a named policy, its own."""
    for key in policy_class.config_keys:
        about = key._asdict()
        yield about.pop("name"), {**about, "valid_values": list(key.valid_values)}
    for config in policy_class.topic_configs:
        yield (
            config.name,
            {
                "type": config.type,
                "default": config.default,
                "documentation": config.documentation,
                "valid_values": list(config.valid_values),
                "required": False,
            },
        )
