"""Divide all tests into unit tests and tests that need Kafka, Spark or processes.

A test is a unit test unless it is in a folder of `SYSTEM_FOLDERS`, uses a fixture of
`SYSTEM_FIXTURES`, or is marked `system`. A unit test that starts a process or opens a
connection fails.
"""

import functools
import importlib.util
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

SYSTEM_FOLDERS: Final = frozenset(
    {
        "chaos",
        "hostile",
        "integration",
        "interop",
        "kerberos",
        "parity",
        "registry",
        "spark",
        "suites",
    }
)
MARKED_IN: Final = "spark"
"""The folder of these in which some tests are marked `unit`."""
WITH_SPARK: Final = (
    MARKED_IN,
    "cli/test_query_watch.py",
    "cli/test_spark_job.py",
    "cli/test_stream_lines.py",
    "engine/topic_configs/test_added_key.py",
    "jobs/topics/test_access.py",
    "kafka/test_artifacts.py",
)
"""Unit tests that import PySpark."""
SYSTEM_FIXTURES: Final = frozenset({"kafka", "spark"})
_FORBIDDEN: Final = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
    }
)
_SYSTEM_MODULE: Final = re.compile(r"^pytestmark = .*\bmark\.system\b", re.MULTILINE)
_guarded = False


@functools.cache
def _folder_of(path: Path, tests: Path) -> str:
    return path.relative_to(tests).parts[0]


def has_unit_tests(file: Path, tests: Path) -> bool:
    """Return whether a file can have unit tests, by its text: an import is far slower."""
    text = file.read_text()
    if _folder_of(file, tests) in SYSTEM_FOLDERS:
        return "mark.unit" in text
    return _SYSTEM_MODULE.search(text) is None


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test needs neither Kafka nor Spark nor another process."""
    folder = _folder_of(item.path, item.config.rootpath / "tests")
    fixtures = set(getattr(item, "fixturenames", ()))
    return not (
        folder in SYSTEM_FOLDERS or fixtures & SYSTEM_FIXTURES or item.get_closest_marker("system")
    )


def has_spark() -> bool:
    """Return whether PySpark is installed; `make unit` alone does not install it."""
    return importlib.util.find_spec("pyspark") is not None


def pytest_report_header() -> list[str]:
    """Return a line about the tests that are left out."""
    return (
        [] if has_spark() else [f"left out without PySpark (make setup): {', '.join(WITH_SPARK)}"]
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without unit tests in unit runs: their import is slow."""
    is_unit_run = config.getoption("markexpr").split(" and ")[0] == "unit"
    tests = config.rootpath / "tests"
    if not is_unit_run or not collection_path.is_relative_to(tests):
        return None
    name = collection_path.relative_to(tests).as_posix()
    left_out = SYSTEM_FOLDERS - {MARKED_IN} | (frozenset() if has_spark() else set(WITH_SPARK))
    if name in left_out:
        return True
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return (is_test and not has_unit_tests(collection_path, tests)) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests before `-m` selects."""
    for item in items:
        if is_unit(item):
            item.add_marker("unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Guard a unit test, its fixtures included."""
    global _guarded  # noqa: PLW0603 - an audit hook cannot be removed, only disabled
    _guarded = item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _guarded = False


def _audit(event: str, _: tuple[Any, ...]) -> None:
    if _guarded and event in _FORBIDDEN:
        pytest.fail(f"{event} in a unit test: mark it `system`, or use a fixture of Kafka")


sys.addaudithook(_audit)
