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
        version: Exactly what is fetched.
        needs: The programs without which it cannot be built or run.
        broker: What its brokers have in `server.properties`.
        least: So many tests pass directly, else it shows nothing; of all, and of the selection.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    broker: ClassVar[Mapping[str, str]]
    least: ClassVar[tuple[int, int]]

    def __init__(self, cache: Path, *, short: bool, seed: int) -> None:
        """Prepare; nothing is fetched.

        Args:
            cache: A folder in which everything that is fetched and built stays.
            short: Run the selection only.
            seed: Of what the suite draws itself, where it takes one.
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
            output: A folder, which exists, for what it prints.
            tests: Only these, named as in an earlier result; all of them, or the selection,
                unless given.

        Returns:
            What became of each test. One that did not end is not in it, or has failed.
        """
