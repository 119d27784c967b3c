"""franz-go's tests of its client: the module's zip has them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

from tests.conformance.commands import build, run
from tests.conformance.fetched import go_environment, go_module
from tests.conformance.outcomes import Outcome
from tests.conformance.suite import Suite

_MODULE: Final = "github.com/twmb/franz-go"
_SUM: Final = "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww="
_OUTCOMES: Final = {
    "pass": Outcome.PASSED,
    "fail": Outcome.FAILED,
    "skip": Outcome.SKIPPED,
}
_RECORDS: Final = (30_000, 3_000)
"""How many each of the long tests sends and consumes several times; of all, and of the selection."""
_SECONDS: Final = (1200.0, 300.0)


class FranzGo(Suite):
    """All tests of `pkg/kgo`: producing, groups of both protocols, share groups, transactions."""

    name = "franz-go"
    version = "v1.22.2"
    needs: ClassVar = ("go",)
    broker: ClassVar = {
        "auto.create.topics.enable": "false",
        # As its own tests want it, which wait for members to leave.
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
    }
    least: ClassVar = (140, 140)

    @property
    def _program(self) -> Path:
        return self.folder / f"kgo-{self.version}.test"

    @property
    def _package(self) -> Path:
        return self.folder / f"franz-go-{self.version}" / "pkg" / "kgo"

    def prepare(self) -> None:
        """Fetch the module, and compile its tests."""
        if self._program.exists():
            return
        go_module(_MODULE, self.version, _SUM, self.folder)
        fresh = self._program.with_suffix(".new")
        build(
            ["go", "test", "-p", "2", "-c", "-o", str(fresh), "."],
            self.folder / "build.log",
            folder=self._package,
            environment=go_environment(),
        )
        fresh.rename(self._program)

    def run(
        self, address: str, output: Path, tests: Sequence[str] | None = None
    ) -> dict[str, Outcome]:
        """Run all tests in one process, as their authors do."""
        seconds = _SECONDS[self.short]
        pattern = f"^({'|'.join(tests)})$" if tests else "."
        printed = output / "tests.json"
        printed.unlink(missing_ok=True)
        run(
            ["go", "tool", "test2json", "-t", str(self._program), "-test.v=test2json",
             f"-test.timeout={seconds:.0f}s", "-test.run", pattern],
            printed, seconds=seconds + 30, folder=self._package,
            environment={
                "KGO_SEEDS": address,
                "KGO_TEST_RF": "1",
                "KGO_TEST_RECORDS": str(_RECORDS[self.short]),
                "KGO_TEST_UNSAFE": "1",
                "KGO_LOG_LEVEL": "none",
            },
        )  # fmt: skip
        with printed.open(errors="replace") as lines:
            return outcomes(lines)


def outcomes(lines: Iterable[str]) -> dict[str, Outcome]:
    """Return what `go tool test2json` says of tests; a test that began and did not end failed."""
    found: dict[str, Outcome] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # output of the program itself to its standard error
        if not isinstance(event, dict):
            continue
        test, action = event.get("Test", ""), event.get("Action")
        if not test or "/" in test:
            continue  # of the package, or a part of a test
        if action == "run":
            found[test] = Outcome.FAILED
        elif action in _OUTCOMES:
            found[test] = _OUTCOMES[action]
    return found
