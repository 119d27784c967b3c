"""Change the code at random places, and count the changes that no unit test notices (`make mutants`).

cosmic-ray writes the mutants (`places.py`). Here each is compiled instead of its module, in a
process that is forked from one that has imported pytest and the libraries. That process runs the
tests which run the changed lines, up to the first that fails: those of the nearest files, then the
others, then the nearest of the unit tests that take seconds. mutmut 3 was not taken: it changes
nothing outside of functions or with a decorator, and has to be installed beside the tests.
"""

import argparse
import contextlib
import importlib
import importlib.machinery
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import CodeType
from typing import Final, NoReturn

import coverage
import pytest

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache/mutants"
COVERAGE: Final = CACHE / "coverage"
SETTINGS: Final = Path(__file__).parent / "coverage.ini"
ROOMS: Final = tuple(
    f"src/penstock/{folder}"
    for folder in (
        "engine",
        "gateway/admin",
        "gateway/produce",
        "gateway/sessions",
        "jobs",
        "kafka/client",
        "kafka/records",
        "kafka/wire",
        "policies",
    )
)
"""Each has an equal part of the sample, whatever its size."""
PROCESSES: Final = "src/penstock/engine/workers/processes"
"""Runs in separate processes, which unit tests cannot start."""
UNIT: Final = "unit and not thorough"
THOROUGH: Final = "unit and thorough"
PRELOADED: Final = (
    "aiokafka",
    "confluent_kafka.admin",
    "h11",
    "pydantic",
    "rich.console",
    "structlog",
    "uvloop",
)
TESTS_MAX: Final = 400
"""The tests nearest to the changed module; a mutant that only others notice counts as alive."""
FAR_MAX: Final = 12
"""As many files are loaded for them: loading takes most of the time."""
NEAR: Final = 2
"""The tests of so many files run first: most mutants are noticed there."""
THOROUGH_MAX: Final = 3
"""The tests that take seconds are those of so many files."""
HANGS_S: Final = 300
CPU_MAX_S: Final = 60
"""A mutant that loops is ended sooner than a mutant that waits."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change; `lines` are those of the changed statement."""

    path: str
    line: int
    lines: list[int]
    kind: str
    source: str
    difference: list[str]


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


class Contexts:
    """The tests that run each line."""

    def __init__(self) -> None:
        """Read what coverage.py has measured."""
        self._data = coverage.CoverageData(str(COVERAGE))
        self._data.read()

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the changed statement, the nearest first.

        Of a statement that runs only while the module is imported, the tests of the module.
        """
        lines = self._data.contexts_by_lineno(str(ROOT / mutant.path))
        found = {test for line in mutant.lines for test in lines.get(line, ())}
        if found == {""}:
            found = {test for tests in lines.values() for test in tests}
        tests = {test.partition("|")[0] for test in found if test}
        return self._nearest(mutant.path, tests)

    @staticmethod
    def _nearest(path: str, tests: Iterable[str]) -> list[str]:
        module = PurePath(path).relative_to("src/penstock")

        def distance(test: str) -> tuple[bool, int, str]:
            file = PurePath(file_of(test)).relative_to("tests")
            shared = 0
            for own, other in zip(module.parts[:-1], file.parts[:-1], strict=False):
                if own != other:
                    break
                shared += 1
            return file.name != f"test_{module.name}", -shared, test

        chosen: list[str] = []
        files: set[str] = set()
        for test in sorted(tests, key=distance):
            file = file_of(test)
            if len(chosen) == TESTS_MAX or (file not in files and len(files) == FAR_MAX):
                break
            files.add(file)
            chosen.append(test)
        return chosen


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of pytest: files, a marker expression, and the tests in their order, or all tests."""

    files: Sequence[str]
    markers: str
    tests: Sequence[str] = ()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop and order."""
        if self.tests:
            places = {test: place for place, test in enumerate(self.tests)}
            items[:] = [item for item in items if item.nodeid in places]
            items.sort(key=lambda item: places[item.nodeid])


def runs(tests: Sequence[str]) -> Iterator[Run]:
    """Yield the runs for a mutant, given the tests that run its lines, the nearest first."""
    files = list(dict.fromkeys(file_of(test) for test in tests))
    for some in (files[:NEAR], files[NEAR:]):
        if some:
            yield Run(some, UNIT, [test for test in tests if file_of(test) in some])
    thorough = [file for file in files if "mark.thorough" in (ROOT / file).read_text()]
    if thorough:
        yield Run(thorough[:THOROUGH_MAX], THOROUGH)


def compile_mutant(mutant: Mutant) -> None:
    """Have the import of the module compile the mutant; nothing is written."""
    path = str(ROOT / mutant.path)
    as_it_is = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if loader.get_filename(name) == path:
            return compile(mutant.source, path, "exec", dont_inherit=True)
        return as_it_is(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def run_tests(mutant: Mutant, run: Run, log: Path) -> NoReturn:
    """Run tests in this process, which runs nothing else, and end it."""
    code = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_MAX_S, CPU_MAX_S))
        with log.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        compile_mutant(mutant)
        options = ["-q", "-x", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"]
        replaced = ["-o", "addopts=--strict-markers", "-m", run.markers]
        code = pytest.main([*options, *replaced, *run.files], plugins=[run])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def is_noticed_by(run: Run, mutant: Mutant, log: Path) -> bool:
    """Return whether a test fails, in a separate process.

    A quick test that hangs has failed; one that takes seconds may only be slow.
    """
    if (child := os.fork()) == 0:
        run_tests(mutant, run, log)
    deadline = time.monotonic() + HANGS_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended and os.WIFSIGNALED(status):
            return run.markers == UNIT
        if ended:
            return os.waitstatus_to_exitcode(status) not in {
                pytest.ExitCode.OK,
                pytest.ExitCode.NO_TESTS_COLLECTED,
            }
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return run.markers == UNIT


def is_noticed(mutant: Mutant, tests: Sequence[str], log: Path) -> str | None:
    """Return the marker expression of the tests that notice a mutant, or None."""
    noticing = (run.markers for run in runs(tests) if is_noticed_by(run, mutant, log))
    return next(noticing, None)


def measure_coverage() -> None:
    """Measure which test runs which line: of all tests, or of the files of tests that changed since."""
    measured = COVERAGE.stat().st_mtime if COVERAGE.exists() else 0
    changed = [
        path
        for folder in ("src", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path.stat().st_mtime > measured
    ]
    if not changed:
        return
    run = [sys.executable, "-m", "pytest", "-q", "-m", UNIT, "--durations=0"]
    options = [f"--cov-config={SETTINGS}", "--cov-context=test", "--cov-report="]
    options += [f"--cov={room}" for room in ROOMS]
    if measured and all(path.name.startswith("test_") for path in changed):
        print(f"measures which lines the tests of {len(changed)} files run", flush=True)
        options += ["--cov-append", *map(str, changed)]
    else:
        print("measures which test runs which line", flush=True)
        options += ["--numprocesses=2"]
    with (CACHE / "coverage.log").open("wb") as log:
        code = subprocess.run([*run, *options], check=False, stdout=log, stderr=log, cwd=ROOT)
    if code.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        sys.exit(f"the tests fail without a change: see {CACHE / 'coverage.log'}")
    COVERAGE.touch()


def parts(size: int, count: int) -> list[int]:
    """Return the sizes of the parts of a sample; the first are larger by one if need be."""
    return [size // count + (number < size % count) for number in range(count)]


def sample(tool: Path, size: int, seed: str, room: str) -> tuple[int, list[Mutant]]:
    """Return the number of places of a room, and the mutants of some of them.

    Raises:
        FileNotFoundError: There is no such file or folder.
    """
    if not (ROOT / room).exists():
        raise FileNotFoundError(room)
    places = Path(__file__).parent / "places.py"
    command = [tool, places, f"--sample={size}", f"--seed={seed}", f"--without={PROCESSES}", room]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    total, *lines = output.splitlines()
    return int(total), [Mutant(**json.loads(line)) for line in lines]


def check_baseline(contexts: Contexts, mutants: Iterable[Mutant]) -> None:
    """End the program if the tests of a mutant fail without the change."""
    for mutant in mutants:
        same = replace(mutant, source=(ROOT / mutant.path).read_text())
        if (tests := contexts.tests(same)) and is_noticed(same, tests, CACHE / "output"):
            sys.exit(f"tests of {mutant.path} fail without a change: see {CACHE / 'output'}")


def count_noticed(
    contexts: Contexts, mutants: Iterable[Mutant], alive: Counter[str]
) -> Counter[str]:
    """Return how many mutants are noticed, by the marker expression of the tests; print the others.

    Args:
        alive: Is added to: how many live, by file.
    """
    noticed: Counter[str] = Counter()
    for mutant in mutants:
        tests = contexts.tests(mutant)
        if by := is_noticed(mutant, tests, CACHE / "output"):
            noticed[by] += 1
            continue
        alive[mutant.path] += 1
        print(f"{mutant.path}:{mutant.line} ({mutant.kind}; {len(tests)} tests)")
        print(*(f"    {text}" for text in mutant.difference), sep="\n", flush=True)
    return noticed


def main() -> int:
    """Print the mutants that live, and the share of those that do not, of each room and of all."""
    arguments = argparse.ArgumentParser(prog="python -m tests.mutants")
    arguments.add_argument("--tool", type=Path, required=True, help="Python with cosmic-ray")
    arguments.add_argument("--sample", type=int, default=200)
    arguments.add_argument("--seed", default=uuid.uuid4().hex[:4])
    arguments.add_argument("rooms", nargs="*", default=ROOMS, help="files and folders of code")
    given = arguments.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    measure_coverage()
    sizes = dict(zip(given.rooms, parts(given.sample, len(given.rooms)), strict=True))
    samples = {room: sample(given.tool, size, given.seed, room) for room, size in sizes.items()}
    for library in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    contexts = Contexts()
    check_baseline(contexts, (mutants[0] for _, mutants in samples.values() if mutants))
    began = time.monotonic()
    alive: Counter[str] = Counter()
    noticed = {room: count_noticed(contexts, samples[room][1], alive) for room in samples}
    for path, count in alive.most_common():
        print(f"{count:5} {path}")
    for room, (total, mutants) in samples.items():
        print(f"{share(noticed[room], len(mutants))} of about {total} places: {room}")
    of_all = sum(noticed.values(), Counter[str]())
    count = sum(len(mutants) for _, mutants in samples.values())
    print(f"seed {given.seed}: {share(of_all, count)}, in {time.monotonic() - began:.0f} s")
    return 0


def share(noticed: Counter[str], count: int) -> str:
    """Return how many mutants are noticed, as a text."""
    part = noticed.total() / count if count else 0
    return (
        f"{noticed.total()} of {count} mutants are noticed, {part:.1%}"
        f" ({noticed[THOROUGH]} by tests that take seconds)"
    )


if __name__ == "__main__":
    sys.exit(main())
