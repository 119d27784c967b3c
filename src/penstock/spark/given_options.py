"""What the options of reads and writes with `format("penstock")` have in common."""

from __future__ import annotations

import re
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.configuration.values import may_be_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_CLIENT: Final = "kafka."
_ENDPOINT: Final = ".url"
_OF_TABLE: Final = "provider"
"""What Spark adds to the options of a table of a catalog (`CREATE TABLE ... USING`)."""
_NEAR: Final = 0.8
"""How alike a name is to one that was misspelt; less alike are options of other sources."""
_DIGITS: Final = re.compile(r"\d+")
_BOOLEANS: Final = {"true": True, "false": False}


class GivenOptions(NamedTuple):
    """Options as Spark was given them.

    Attributes:
        own: By name, in lower case.
        client: The keys after `kafka.`, as a Java client takes them.
    """

    own: dict[str, str]
    client: dict[str, str]

    @classmethod
    def read(
        cls,
        spark_options: Mapping[str, str],
        names: Sequence[str],
        *,
        does: str,
        of_spark: Collection[str] = (),
        instead: Mapping[str, str] = MappingProxyType({}),
    ) -> GivenOptions:
        """Sort options, and check their names; their case does not matter.

        Args:
            names: The valid options, without those that start with `kafka.`.
            does: The verb of the error: `has` or `writes with`.
            of_spark: Names in lower case that Spark adds itself.
            instead: Options of Spark's own format that `penstock` has not, and what to do instead.

        Raises:
            ConfigurationError: One is unknown, or they are those of a table of a catalog.
        """
        options = {key.lower(): value for key, value in spark_options.items()}
        if _OF_TABLE in options:
            raise ConfigurationError(
                'format("penstock") cannot be a table of a catalog, because Spark does not pass '
                "the options of a table to readers in Python: use CREATE TEMPORARY VIEW"
            )
        for name, hint in instead.items():
            if name.lower() in options:
                raise ConfigurationError(f'format("penstock") {does} no option {name}: {hint}')
        names_by_key = {name.lower(): name for name in names}
        own = {key: value for key, value in options.items() if not key.startswith(_CLIENT)}
        for key in own:
            if key not in names_by_key and key not in of_spark:
                near = get_close_matches(key, names_by_key, 1, _NEAR)
                hint = (
                    f"{names_by_key[near[0]]} is near it"
                    if near
                    else f"there are {', '.join(names)}"
                )
                raise ConfigurationError(f'format("penstock") {does} no option {key}; {hint}')
        client = {
            key.removeprefix(_CLIENT): value
            for key, value in options.items()
            if key.startswith(_CLIENT)
        }
        return cls(own, client)

    def boolean(self, name: str) -> bool:
        """Return an option that is true by default.

        Raises:
            ConfigurationError: It is neither true nor false.
        """
        text = self.own.get(name.lower(), "true")
        value = _BOOLEANS.get(text.strip().lower())
        if value is None:
            raise ConfigurationError(f"{name} {text}: true or false")
        return value

    def number(self, name: str, least: int = 1, digits: int = 18) -> int | None:
        """Return an option that is a whole number; None where it is not given.

        Args:
            name: Of the option; of a key of the client, with `kafka.`.
            least: The smallest number that is allowed.
            digits: How many digits it may have. All numbers of 18 digits have 64 bits.

        Raises:
            ConfigurationError: It is not a number, too small, or has too many digits.
        """
        key = name.lower()
        own, client = self.own.get(key), self.client.get(key.removeprefix(_CLIENT))
        text = client if key.startswith(_CLIENT) else own
        if text is None:
            return None
        is_number = _DIGITS.fullmatch(text.strip()) and len(text.strip()) <= digits
        if not is_number or int(text) < least:
            raise ConfigurationError(
                f"{name} {text}: a number of at least {least}, with at most {digits} digits"
            )
        return int(text)

    def plan(self) -> str | None:
        """Return the configuration file; None where the client's keys name a cluster instead.

        Raises:
            ConfigurationError: Neither names a cluster, or a key of the client holds a secret or
                is not usable.
        """
        _check_client(self.client)
        plan = self.own.get("plan")
        if plan is None and "bootstrap.servers" not in self.client:
            raise ConfigurationError(
                'format("penstock"): name the configuration file as option plan, or the cluster '
                "as kafka.bootstrap.servers"
            )
        return plan


def _check_client(client: Mapping[str, str]) -> None:
    for key, value in client.items():
        if may_be_secret(key) and "${" not in value and not key.endswith(_ENDPOINT):
            raise ConfigurationError(
                f"kafka.{key}: a secret is not an option, since Spark can show options; name it "
                f"as upstream.{key} in the file of the option plan, or write ${{env:NAME}} or "
                "${file:PATH} for it, which is read on the driver"
            )
    if client.get("isolation.level", "read_committed") != "read_committed":
        raise ConfigurationError(
            "kafka.isolation.level: only read_committed: what transactions aborted is not read"
        )
