"""A policy as the configuration has it: by its class under a proposal's key, or by a name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from penstock.configuration import PolicyConfiguration
    from penstock.configuration.policies import NamedPolicy


class ConfiguredPolicy(NamedTuple):
    """The class, settings and place in the file from which an instance is made.

    Attributes:
        name: What everything calls it: its name, or its class.
        interface: The key of the interface by which it is called; see `configuration.interfaces`.
        key: The key of the file that names the class.
        file: The configuration file.
        configs: What `configure()` receives.
        own: The keys of this policy alone, which only `configure()` reads.
        topic_configs: The topic level keys that its class declares, if it gets them as own keys.
        is_named: Whether it has a name.
    """

    name: str
    class_name: str
    interface: str
    key: str
    file: Path
    configs: Mapping[str, str]
    own: Sequence[str] = ()
    topic_configs: Mapping[str, str] | None = None
    is_named: bool = False

    @property
    def where(self) -> str:
        """The file, the key and the class, with which an error begins."""
        return f"{self.file}: {self.key}: {self.class_name}"

    @property
    def own_prefix(self) -> str:
        """The prefix of its keys in the file."""
        return f"policies.{self.name}." if self.is_named else ""

    @classmethod
    def by_class(
        cls, configuration: PolicyConfiguration, name: str, interface: str
    ) -> ConfiguredPolicy:
        """Return the policy that a proposal's key names."""
        properties = configuration.properties
        return cls(name, name, interface, interface, configuration.path, properties)

    @classmethod
    def by_name(cls, configuration: PolicyConfiguration, named: NamedPolicy) -> ConfiguredPolicy:
        """Return a named policy: its own keys win over those of the file."""
        return cls(
            named.name,
            named.class_name,
            named.interface,
            f"policies.{named.name}.type",
            configuration.path,
            MappingProxyType({**configuration.properties, **named.configs}),
            [key for key in named.configs if key not in named.topic_configs],
            named.topic_configs or None,
            is_named=True,
        )
