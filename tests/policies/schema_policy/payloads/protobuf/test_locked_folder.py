"""Temporary folders are removed after their process was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf import locked_folder as module
from penstock.policies.schema_policy.payloads.protobuf.locked_folder import locked_folder
from penstock.policies.schema_policy.payloads.protobuf.protoc import compile_files

PREFIX = "penstock-proto-"


@pytest.fixture(autouse=True)
def _temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_exists_while_it_is_used(tmp_path):
    with locked_folder(PREFIX) as folder, locked_folder(PREFIX) as two:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").touch()
        assert {folder, two} == set(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_only_unused_folders_are_removed(tmp_path):
    left = tmp_path / f"{PREFIX}left"
    (left / "in").mkdir(parents=True)
    others = [tmp_path / "other", tmp_path / f"{PREFIX}file", tmp_path / f"{PREFIX}link"]
    others[0].mkdir()
    others[1].touch()
    others[2].symlink_to(others[0])
    with locked_folder(PREFIX):
        assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize("when", ["before it is opened", "before it is locked"])
def test_a_folder_that_another_process_takes_for_left_is_made_again(monkeypatch, when):
    """Between `mkdtemp` and the lock it is not visible that it is used."""
    taken = []

    def open_late(path, flags):
        if not taken and when == "before it is opened":
            taken.append(path)
            Path(path).rmdir()
        descriptor = os.open(path, flags)
        if not taken:
            taken.append(path)
            Path(path).rmdir()
        return descriptor

    monkeypatch.setattr(module, "_open", open_late)
    with locked_folder(PREFIX) as folder:
        assert folder.is_dir()
        assert str(folder) != taken[0]


@pytest.mark.system
def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path):
    program = f"""
import subprocess, tempfile, time
tempfile.tempdir = {str(tmp_path)!r}
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.protoc import compile_files
def run(*_, **__):
    print("begun", flush=True)
    time.sleep(600)
subprocess.run = run
compile_files(SchemaSource("PROTOBUF", 'syntax = "proto3"; message A {{}}'))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    source = SchemaSource("PROTOBUF", 'syntax = "proto3"; message B {}')
    compile_files(source)
    (left,) = tmp_path.iterdir()
    assert (left / "in" / "schema.proto").exists(), "it is in use"
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    compile_files(source)
    assert list(tmp_path.iterdir()) == []
