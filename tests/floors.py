"""Prints the lowest versions that pyproject.toml allows, as requirements: `python -m tests.floors`.

PySpark is not among them: `make spark-versions` runs its versions.
"""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
_FLOOR: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?>=(?P<version>[\w.]+)")
"""How a requirement with a floor begins."""


def declared() -> set[str]:
    """Return the requirements of the package and of all its extras, without its own extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    requirements = set(project["dependencies"]).union(*project["optional-dependencies"].values())
    return {requirement for requirement in requirements if not requirement.startswith("penstock")}


def floors(requirements: Iterable[str]) -> dict[str, str]:
    """Return the lowest version of each package that has a floor, the highest of several."""
    lowest: dict[str, str] = {}
    for requirement in sorted(requirements):
        if floor := _FLOOR.match(requirement):
            name, version = floor["name"], floor["version"]
            lowest[name] = max(lowest.get(name, version), version, key=_numbers)
    return lowest


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


if __name__ == "__main__":
    for package, floor in floors(declared()).items():
        if package != "pyspark":
            print(f"{package}=={floor}")
