"""What every suite offers."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.conformance.outcomes import Outcome


class Suite(ABC):
    """A client's own tests.

    Attributes:
        name: In the table, and for `WITHOUT=`.
        version: The exact version that is fetched.
        needs: The programs without which it cannot be built or run.
        broker: Properties of its brokers.
        least: How many tests must pass directly for a valid result; of all, and of the selection.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    broker: ClassVar[Mapping[str, str]]
    least: ClassVar[tuple[int, int]]

    def __init__(self, cache: Path, *, short: bool, seed: int) -> None:
        """Prepare; nothing is fetched.

        Args:
            cache: The folder of all fetched and built files.
            short: Run the selection only.
            seed: The seed of the suite's random choices, if it accepts a seed.
        """
        self.folder = cache / self.name
        self.short = short
        self.seed = seed

    @classmethod
    def missing(cls) -> list[str]:
        """Return the programs that it needs, and that are not on this machine."""
        return [name for name in cls.needs if shutil.which(name) is None]

    @property
    def least_passed(self) -> int:
        """How many tests have to pass directly."""
        return self.least[self.short]

    @abstractmethod
    def prepare(self) -> None:
        """Fetch and build it, where that has not been done.

        Raises:
            BuildError: It cannot be fetched or built.
        """

    @abstractmethod
    def run(
        self, address: str, output: Path, tests: Sequence[str] | None = None
    ) -> dict[str, Outcome]:
        """Run it.

        Args:
            address: The bootstrap address.
            output: An existing folder for its output.
            tests: Only these, named as in an earlier result; by default all, or the selection.

        Returns:
            The outcome of each test. A test that did not end is missing, or has failed.
        """
