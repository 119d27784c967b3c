"""A file of an earlier version, which a gateway reads when it starts."""

import os
import shutil
import sqlite3

import pytest
from structlog.testing import capture_logs

from penstock.configuration import read_configuration
from penstock.gateway.produce.producer_state import former_numbers
from penstock.gateway.produce.producer_state.former_numbers import former_file, former_records
from tests.gateway.produce.producer_state.former_file import KEY, write_former_file

IGNORED = "the state of producers in a file is ignored"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "producer-state-c.sqlite"


def read(file):
    with capture_logs() as lines:
        records = former_records(file)
    return records, [(line["event"], line["reason"]) for line in lines]


def test_each_cluster_has_a_file_beside_the_configuration(tmp_path):
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "upstream.bootstrap.servers": "127.0.0.1:1",
    }
    configuration = read_configuration(tmp_path / "gateway.properties", properties)
    assert former_file(configuration, "c") == (
        tmp_path / "penstock-state" / "producer-state-c.sqlite"
    )


def test_the_records_of_producers_are_read_the_oldest_first(file):
    other = KEY._replace(producer_id=8)
    write_former_file(file, other, record=b"other")
    write_former_file(file, record=b"record", age_s=60.0)
    records, lines = read(file)
    assert [(key, record) for key, record, _ in records] == [(KEY, b"record"), (other, b"other")]
    assert records[1].used - records[0].used == pytest.approx(60.0, abs=30.0)
    assert lines == []


def test_without_a_file_nothing_is_read_or_created(file):
    assert read(file) == ([], [])
    assert not file.parent.exists()


def test_a_file_that_another_process_uses_is_ignored(file):
    write_former_file(file)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    assert read(file) == ([], [(IGNORED, "database is locked")])
    connection.close()
    assert len(read(file)[0]) == 1


def test_another_kind_of_file_is_ignored(file):
    file.parent.mkdir()
    file.write_text("no database, but text that is long" * 9)
    assert read(file) == ([], [(IGNORED, "file is not a database")])


@pytest.mark.parametrize("version", [2, 4])
def test_the_file_of_another_version_is_ignored(file, version):
    write_former_file(file, version=version)
    assert read(file) == ([], [(IGNORED, f"it is of version {version}, not 3")])


def test_a_folder_that_only_others_write_is_left_as_it_is(file, monkeypatch):
    """Also what a process that was killed had only written to the log of the file."""
    write_former_file(file)
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("UPDATE producers SET record = ? WHERE key != ?", (b"later", b"probe"))
    killed = file.parent.with_name("killed")
    shutil.copytree(file.parent, killed)
    connection.close()
    before = {path: path.read_bytes() for path in killed.iterdir()}
    monkeypatch.setattr(
        former_numbers.os, "access", lambda path, mode: mode != os.W_OK or killed not in
        (path, path.parent),
    )  # fmt: skip
    records, lines = read(killed / file.name)
    assert ([record for _, record, _ in records], lines) == ([b"later"], [])
    assert {path: path.read_bytes() for path in killed.iterdir()} == before
