"""Sort every test into one of two parts: unit tests, and those that need Kafka, Spark or processes.

A test is a unit test unless it stands in a folder of `SYSTEM_FOLDERS`, uses a fixture of
`SYSTEM_FIXTURES`, or is marked `system`. A unit test that starts a process or opens a
connection all the same fails, whatever it uses to do so.
"""

import importlib.util
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

SYSTEM_FOLDERS: Final = frozenset(
    {"chaos", "hostile", "integration", "interop", "local", "parity", "registry", "spark", "suites"}
)
MARKED_IN: Final = "spark"
"""The one of these folders in which some tests are marked `unit`."""
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
_guarded = False


def is_unit(item: pytest.Item) -> bool:
    """Return whether a test needs neither Kafka nor Spark nor any process but its own."""
    folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    fixtures = set(getattr(item, "fixturenames", ()))
    return not (
        folder in SYSTEM_FOLDERS or fixtures & SYSTEM_FIXTURES or item.get_closest_marker("system")
    )


def has_spark() -> bool:
    """Return whether PySpark is installed; `make unit` alone does not install it."""
    return importlib.util.find_spec("pyspark") is not None


def pytest_report_header() -> list[str]:
    """Say what is left out."""
    return [] if has_spark() else ["tests/spark is left out: PySpark is not installed (make setup)"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders without a unit test where only unit tests run: they take long to import."""
    is_unit_run = config.getoption("markexpr").split(" and ")[0] == "unit"
    if not is_unit_run or collection_path.parent != config.rootpath / "tests":
        return None
    folder = collection_path.name
    left_out = folder in SYSTEM_FOLDERS and (folder != MARKED_IN or not has_spark())
    return left_out or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark unit tests before `-m` selects."""
    for item in items:
        if is_unit(item):
            item.add_marker("unit")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Guard a unit test, its fixtures included."""
    global _guarded  # noqa: PLW0603 - an audit hook cannot be removed, only told to rest
    _guarded = item.get_closest_marker("unit") is not None
    try:
        return (yield)
    finally:
        _guarded = False


def _audit(event: str, _: tuple[Any, ...]) -> None:
    if _guarded and event in _FORBIDDEN:
        pytest.fail(f"{event} in a unit test: mark it `system`, or use a fixture of Kafka")


sys.addaudithook(_audit)
