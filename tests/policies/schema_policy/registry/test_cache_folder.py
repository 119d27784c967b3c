"""Answers in files: complete or not at all, bounded, and their failures do not affect records."""

import os
import stat

import pytest

from penstock.policies.schema_policy.registry import cache_folder
from penstock.policies.schema_policy.registry.cache_folder import EVENT, CacheFolder
from penstock.policy.counting import take_events


@pytest.fixture
def place(tmp_path):
    take_events()
    return tmp_path / "deep" / "cache"


def counted():
    return {result: amount for event, result, amount in take_events() if event == EVENT}


def files(place):
    return sorted(place.iterdir())


def test_an_answer_is_read_by_another_process(place):
    CacheFolder(place).write("a/ä", b"answer\nof lines")
    CacheFolder(place).write("b", b"")
    other = CacheFolder(place)
    assert other.read("a/ä") == b"answer\nof lines"
    assert other.read("b") == b""
    assert other.read("c") is None
    assert counted() == {"read": 2}
    CacheFolder(place).write("b", b"more")
    assert other.read("b") == b"more"
    other.delete("b")
    other.delete("c")
    assert other.read("b") is None


def test_other_users_may_not_read_it(place):
    CacheFolder(place).write("a", b"answer")
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(place)] == [0o600]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: b"",
        lambda data: bytes(len(data)),
        lambda data: data.replace(b"answer", b"Answer"),
        lambda data: data.replace(b"penstock", b"Penstock"),
        lambda data: data[: data.index(b"\n") + 1],
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning(place, damage, caplog):
    folder = CacheFolder(place)
    folder.write("a", b"an answer")
    (file,) = files(place)
    file.write_bytes(damage(file.read_bytes()))
    assert folder.read("a") is None
    assert folder.read("a") is None
    (line,) = caplog.messages
    assert line == f"schema.registry.cache.dir: {file} is damaged; the registry is queried instead"
    assert counted() == {"damaged": 2}
    folder.write("a", b"another")
    assert folder.read("a") == b"another"


def test_an_answer_is_used_only_for_its_request(place):
    folder = CacheFolder(place)
    folder.write("a", b"answer")
    folder.write("b", b"answer of b")
    first, second = (folder._path(name) for name in "ab")
    first.write_bytes(second.read_bytes())
    assert folder.read("a") is None


def test_only_regular_files_are_read(place, tmp_path):
    folder = CacheFolder(place)
    folder.write("a", b"answer")
    (file,) = files(place)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert folder.read("a") is None
    file.unlink()
    os.mkfifo(file)
    assert folder.read("a") is None
    file.unlink()
    file.mkdir()
    assert folder.read("a") is None


def test_a_folder_that_cannot_be_written_is_a_warning_and_no_more(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    folder = CacheFolder(tmp_path / "file" / "cache")
    take_events()
    for _ in range(3):
        folder.write("a", b"answer")
    assert counted() == {"not_written": 3}
    assert len(caplog.messages) == 1
    assert folder.read("a") is None


def test_the_least_recently_used_answers_are_deleted_beyond_the_limit(place, monkeypatch):
    monkeypatch.setattr(cache_folder, "FILES", 20)
    monkeypatch.setattr(cache_folder, "CHECKED_EVERY", 1)
    folder = CacheFolder(place)
    for number in range(20):
        folder.write(f"{number}", b"answer")
        os.utime(folder._path(f"{number}"), (number, number))
    assert folder.read("0") == b"answer"  # so it is used now
    folder.write("20", b"answer")
    kept = [number for number in range(21) if folder._path(f"{number}").exists()]
    assert kept == [0, *range(4, 21)]


def test_size_is_bounded_too(place, monkeypatch):
    monkeypatch.setattr(cache_folder, "BYTES", 10_000)
    monkeypatch.setattr(cache_folder, "CHECKED_EVERY", 1)
    folder = CacheFolder(place)
    for number in range(30):
        folder.write(f"{number}", bytes(1000))
    assert sum(file.stat().st_size for file in files(place)) <= 10_000
    assert folder.read("29") == bytes(1000)
    folder.write("large", bytes(cache_folder.LARGEST))
    assert folder.read("large") is None


def test_incomplete_files_are_deleted_after_a_while(place):
    place.mkdir(parents=True)
    old, new, other = (place / name for name in ("a.begun", "b.begun", "README"))
    for file in (old, new, other):
        file.write_text("")
    os.utime(old, (1, 1))
    CacheFolder(place).write("a", b"answer")
    assert not old.exists()
    assert new.exists()
    assert other.exists()
