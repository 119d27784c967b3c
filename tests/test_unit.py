"""Unit tests start no process and open no connection; groups of tests name existing files."""

import asyncio
import gc
import multiprocessing
import os
import socket
import subprocess
import sys

import pytest

from tests.order import LONGEST, TESTS
from tests.unit import MARKED_IN, SYSTEM_FOLDERS, has_unit_tests


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda: subprocess.run(["true"], check=True),
        lambda: multiprocessing.get_context("fork").Process().start(),
        os.fork,
        lambda: os.posix_spawn(sys.executable, [sys.executable, "-V"], {}),
        lambda: os.system("true"),
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.socket().connect(("127.0.0.1", 9)),
        lambda: asyncio.run(asyncio.open_connection("127.0.0.1", 9)),
    ],
    ids=[
        "subprocess",
        "multiprocessing",
        "fork",
        "spawn",
        "system",
        "socket",
        "connect",
        "asyncio",
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_unit_test_fails_when_it_starts_a_process_or_connects(forbidden):
    with pytest.raises(pytest.fail.Exception, match="in a unit test"):
        forbidden()


def test_the_test_above_is_a_unit_test(request):
    assert request.node.get_closest_marker("unit")


def test_no_unit_test_is_in_a_folder_that_a_unit_run_leaves_out():
    marked = {
        path.relative_to(TESTS).parts[0]
        for folder in SYSTEM_FOLDERS
        for path in (TESTS / folder).rglob("*.py")
        if "mark.unit" in path.read_text()
    }
    assert marked == {MARKED_IN}


@pytest.mark.parametrize(
    ("folder", "text", "is_imported"),
    [
        ("wire", "def test_a(): ...", True),
        ("wire", "@pytest.mark.system\ndef test_a(): ...", True),
        ("wire", "pytestmark = pytest.mark.slow", True),
        ("wire", "pytestmark = pytest.mark.system", False),
        ("wire", "pytestmark = [pytest.mark.browser, pytest.mark.system]", False),
        ("spark", "def test_a(): ...", False),
        ("spark", "@pytest.mark.unit\ndef test_a(): ...", True),
    ],
)
def test_a_unit_run_imports_no_file_without_a_unit_test(tmp_path, folder, text, is_imported):
    (tmp_path / folder).mkdir()
    file = tmp_path / folder / "test_a.py"
    file.write_text(text)
    assert has_unit_tests(file, tmp_path) is is_imported


def test_the_garbage_collector_does_not_visit_what_pytest_collected():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000


def test_listed_folders_and_files_exist():
    assert all((TESTS / folder).is_dir() for folder in SYSTEM_FOLDERS)
    assert [file for file in LONGEST if not (TESTS / file).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


@pytest.mark.system
def test_a_test_that_is_marked_system_may_start_processes():
    subprocess.run(["true"], check=True)
