"""The file of the audit trail has whole lines, whatever fails."""

import errno
import os
import stat

import pytest

from penstock.configuration import ConfigurationError
from penstock.gateway.observing.audit_trail import file as audit_file
from penstock.gateway.observing.audit_trail.file import AuditFile


class Settled:
    def __init__(self):
        self.records, self.warnings = [], []

    def __call__(self, records, *, is_written):
        assert is_written
        self.records += records


@pytest.fixture
def opened(tmp_path):
    path = tmp_path / "audit.jsonl"
    files = []

    def open_it():
        file, settled = AuditFile(path, tmp_path / "p.properties"), Settled()
        file.start(settled, settled.warnings.append)
        files.append(file)
        return file, settled, path

    yield open_it
    for file in files:
        file.close()


def test_lines_are_appended_in_order(opened):
    file, settled, path = opened()
    records = [b"%d" % n * (n % 50) for n in range(1, 5000)]
    file.take(records[:10])
    assert file.work() is None
    file.take(records[10:])
    assert file.work() is None

    assert path.read_bytes().split(b"\n") == [*records, b""]
    assert settled.records == records


def test_a_new_file_is_not_readable_by_others(opened):
    before = os.umask(0)
    try:
        _, _, path = opened()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_incomplete_line_of_an_earlier_process_is_ended(opened):
    file, _, path = opened()
    path.write_bytes(b'{"a":1}\n{"b"')
    file, _, _ = opened()
    file.take([b"next"])
    file.work()

    assert path.read_bytes() == b'{"a":1}\n{"b"\nnext\n'


@pytest.mark.parametrize("how", ["rename", "remove"])
def test_a_file_that_was_removed_is_created_again(opened, how):
    file, _, path = opened()
    file.take([b"one"])
    file.work()
    if how == "rename":
        path.rename(path.with_suffix(".1"))
    else:
        path.unlink()
    file.take([b"two"])
    assert file.work() is None

    assert path.read_bytes() == b"two\n"
    if how == "rename":
        assert path.with_suffix(".1").read_bytes() == b"one\n"


def test_reopening_creates_the_file_at_once(opened):
    file, _, path = opened()
    path.unlink()
    file.reopen()
    assert path.exists()


class FullDisk:
    """A disk with room for so many bytes, until more room is made."""

    def __init__(self, monkeypatch, room):
        self.room = room
        write = os.write

        def limited(file, data):
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            count = write(file, bytes(data[: self.room]))
            self.room -= count
            return count

        monkeypatch.setattr(audit_file.os, "write", limited)
        monkeypatch.setattr(audit_file, "_RETRY_S", 0.0)


@pytest.mark.parametrize("room", range(12))
def test_a_full_disk_leaves_no_incomplete_line(opened, monkeypatch, room):
    file, settled, path = opened()
    disk = FullDisk(monkeypatch, room)
    file.take([b"one", b"two", b"three"])
    assert file.work() is not None
    assert settled.warnings == ["No space left on device"]
    assert len(settled.records) == (room >= 4) + (room >= 8)
    file.take([b"four"])
    disk.room = 1000
    assert file.work() is None

    assert path.read_bytes() == b"one\ntwo\nthree\nfour\n"
    assert settled.records == [b"one", b"two", b"three", b"four"]


def test_an_incomplete_line_is_written_whole_to_the_next_file(opened, monkeypatch):
    file, _, path = opened()
    disk = FullDisk(monkeypatch, 6)
    file.take([b"one", b"two"])
    file.work()
    path.rename(path.with_suffix(".1"))
    disk.room = 1000
    file.work()

    assert path.with_suffix(".1").read_bytes() == b"one\ntw"
    assert path.read_bytes() == b"two\n"


def test_a_failed_write_is_retried_after_a_pause(opened, monkeypatch):
    file, settled, _ = opened()
    disk = FullDisk(monkeypatch, 0)
    monkeypatch.setattr(audit_file, "_RETRY_S", 1000.0)
    file.take([b"one"])
    assert file.work() == 1000.0
    disk.room = 1000
    assert 900 < file.work() <= 1000
    assert settled.records == []


@pytest.mark.parametrize("what", ["folder", "missing folder", "pipe"])
def test_a_path_that_is_not_a_file_is_a_configuration_error(tmp_path, what):
    path = tmp_path / "audit"
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path = path / "audit"
    with pytest.raises(ConfigurationError, match=r"p\.properties: audit\.file: .*audit: .*must be"):
        AuditFile(path, tmp_path / "p.properties")


class NoFolder:
    """A folder in which no file can be created, until the test allows it."""

    def __init__(self, monkeypatch):
        self.allows = False
        opens = os.open

        def limited(*args):
            if not self.allows:
                raise PermissionError(errno.EACCES, "Permission denied")
            return opens(*args)

        monkeypatch.setattr(audit_file.os, "open", limited)
        monkeypatch.setattr(audit_file, "_RETRY_S", 0.0)


def test_a_file_that_is_renamed_back_is_written_again(opened, monkeypatch):
    file, settled, path = opened()
    folder = NoFolder(monkeypatch)
    path.rename(path.with_suffix(".1"))
    file.take([b"one"])
    assert file.work() is not None
    assert settled.warnings == ["Permission denied"]

    path.with_suffix(".1").rename(path)  # or a new file that gets the same inode
    folder.allows = True
    assert file.work() is None
    assert path.read_bytes() == b"one\n"


def test_an_error_while_closing_a_file_affects_no_other_file(opened, monkeypatch):
    file, settled, path = opened()
    monkeypatch.setattr(audit_file, "_RETRY_S", 0.0)
    close, closed = os.close, []

    def over_quota(number):
        closed.append(number)
        close(number)  # as close(2) does it: the number is free, whatever it returns
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(audit_file.os, "close", over_quota)
    path.rename(path.with_suffix(".1"))
    file.take([b"one"])
    file.work()
    file.work()

    assert len(closed) == 1
    assert path.read_bytes() == b"one\n"
    assert settled.warnings == ["Disk quota exceeded"]
