"""rskafka's integration tests, from its crate; they have librdkafka produce and consume, too."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tests.conformance.commands import BuildError, build, run
from tests.conformance.fetched import cargo_home, crate
from tests.conformance.outcomes import Outcome
from tests.conformance.suite import Suite

_SUM: Final = "849b87417a191e37e16b8893eba8928bbd10e1989e6b57c4f8531549eaa29bdc"
_RSASL: Final = "2.3.1"
_PROGRAMS: Final = ("client", "consumer", "producer", "produce_consume")
_LEFT_OUT: Final = ("java", "test_sasl", "test_tls", "test_socks5")
"""They pass without doing anything, unless there is a JVM bridge, a login or a proxy."""
_SECONDS: Final = 300.0
_LINE: Final = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
_OUTCOMES: Final = {
    "ok": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
    "ignored": Outcome.SKIPPED,
}


class Rskafka(Suite):
    """All integration tests, with every compression."""

    name = "rskafka"
    version = "0.6.0"
    needs: ClassVar = ("cargo", "cc", "c++", "make")
    broker: ClassVar = {"auto.create.topics.enable": "false"}
    least: ClassVar = (35, 35)

    @property
    def _sources(self) -> Path:
        return self.folder / f"rskafka-{self.version}"

    @property
    def _built(self) -> Path:
        return self.folder / "built.json"

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "CARGO_HOME": str(cargo_home()),
            "CARGO_TARGET_DIR": str(self.folder / "target"),
            "CARGO_BUILD_JOBS": "2",
        }

    def prepare(self) -> None:
        """Fetch the crate, and compile its tests with the dependencies that its lock file names."""
        if self._built.exists():
            return
        sources = crate("rskafka", self.version, _SUM, self.folder)
        # It names a toolchain that rustup would have to install; any that is new enough will do.
        (sources / "rust-toolchain.toml").unlink(missing_ok=True)
        # The version in the lock file does not compile with Rust 1.90 and newer.
        build(["cargo", "update", "--package", "rsasl", "--precise", _RSASL],
              self.folder / "build.log", folder=sources, environment=self._environment)  # fmt: skip
        command = ["cargo", "test", "--locked", "--no-run"]
        for program in _PROGRAMS:
            command += ["--test", program]
        build(command, self.folder / "build.log", folder=self._sources,
              environment=self._environment)  # fmt: skip
        listing = self.folder / "listing.json"
        listing.unlink(missing_ok=True)
        build([*command, "--message-format", "json"], listing, folder=self._sources,
              environment=self._environment)  # fmt: skip
        with listing.open() as lines:
            found = programs(lines)
        if set(found) != set(_PROGRAMS):
            raise BuildError(f"rskafka has the tests {sorted(found)}")
        self._built.write_text(json.dumps(found))

    def run(
        self, address: str, output: Path, tests: Sequence[str] | None = None
    ) -> dict[str, Outcome]:
        """Run its programs one after the other."""
        found: dict[str, Outcome] = {}
        for program, path in json.loads(self._built.read_text()).items():
            chosen = [name.partition("::")[2] for name in tests or ()
                      if name.startswith(f"{program}::")]  # fmt: skip
            if tests is None or chosen:
                made = self._run(program, path, chosen, address, output)
                found |= {f"{program}::{name}": outcome for name, outcome in made.items()}
        return found

    def _run(
        self, program: str, path: str, tests: Sequence[str], address: str, output: Path
    ) -> dict[str, Outcome]:
        printed = output / f"{program}.log"
        printed.unlink(missing_ok=True)
        only = ["--exact", *tests] if tests else []
        left_out = [argument for name in _LEFT_OUT for argument in ("--skip", name)]
        run(
            [path, "--test-threads=2", *only, *(left_out if not tests else [])],
            printed, seconds=_SECONDS, folder=self._sources,
            environment={"TEST_INTEGRATION": "1", "TEST_BROKER_IMPL": "kafka",
                         "KAFKA_CONNECT": address},
        )  # fmt: skip
        with printed.open(errors="replace") as lines:
            return outcomes(lines)


def programs(lines: Iterable[str]) -> dict[str, str]:
    """Return the test programs that cargo has built, by name."""
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith("{"):
            message = json.loads(line)
            target = message.get("target", {})
            if message.get("executable") and "test" in target.get("kind", ()):
                found[target["name"]] = message["executable"]
    return found


def outcomes(lines: Iterable[str]) -> dict[str, Outcome]:
    """Return the outcomes of tests from the output of a Rust test program."""
    return {
        match[1]: _OUTCOMES[match[2]] for line in lines if (match := _LINE.match(line)) is not None
    }
