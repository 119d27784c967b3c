"""Downloaded files have the SHA-256 sums of the list."""

import hashlib

import pytest

from penstock.kafka import artifacts
from penstock.kafka.artifacts import ArtifactError, Artifacts
from tests.spark_connector import CONNECTOR

NAME = "org/example/one/1.0/one-1.0.jar"


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """The path of a file in the registry, and a list of sums."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    jar = tmp_path / "maven" / NAME

    def resolve(coordinates, folder, report):
        report(f"fetching {coordinates}")
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.write_bytes(b"content")
        return [str(jar)]

    monkeypatch.setattr(artifacts, "_resolve", resolve)
    monkeypatch.setattr(artifacts, "_sums", lambda: {NAME: hashlib.sha256(b"content").hexdigest()})
    return jar


def test_a_file_with_its_listed_sum_is_used(fetched):
    assert artifacts.class_path("org.example:one:1.0") == str(fetched)


def test_a_file_with_another_sum_is_not_used_and_removed(fetched, monkeypatch):
    monkeypatch.setattr(artifacts, "_sums", lambda: {NAME: "0" * 64})
    for _ in range(2):
        with pytest.raises(ArtifactError, match=f"{NAME}: .* instead of {'0' * 64}"):
            artifacts.class_path("org.example:one:1.0")
        assert not fetched.exists()


def test_a_file_without_a_listed_sum_is_not_used(fetched, monkeypatch):
    monkeypatch.setattr(artifacts, "_sums", dict)
    with pytest.raises(ArtifactError, match="has no checksum for it"):
        artifacts.class_path("org.example:one:1.0")


def test_an_unlisted_file_is_used_only_for_a_requested_version(fetched, monkeypatch):
    monkeypatch.setattr(artifacts, "_sums", dict)
    assert artifacts.class_path("org.example:one:1.0", may_be_unlisted=True) == str(fetched)


def test_a_listed_file_needs_its_sum_even_then(fetched, monkeypatch):
    monkeypatch.setattr(artifacts, "_sums", lambda: {NAME: "0" * 64})
    with pytest.raises(ArtifactError, match=NAME):
        artifacts.class_path("org.example:one:1.0", may_be_unlisted=True)


@pytest.mark.system
@pytest.mark.parametrize("artifact", [*Artifacts, CONNECTOR])
def test_make_setup_has_downloaded_the_files_of_tests(artifact, monkeypatch):
    def resolve(*_):
        raise AssertionError("run make setup: tests fetch nothing")

    monkeypatch.setattr(artifacts, "_resolve", resolve)
    assert artifacts.class_path(artifact).endswith(".jar")


def test_whether_a_download_is_needed_is_known_before(fetched):
    assert not artifacts.is_fetched("org.example:one:1.0")
    artifacts.class_path("org.example:one:1.0")
    assert artifacts.is_fetched("org.example:one:1.0")
    fetched.unlink()
    assert not artifacts.is_fetched("org.example:one:1.0")


def test_downloads_are_reported(fetched):
    lines = []
    artifacts.class_path("org.example:one:1.0", lines.append)
    assert lines == ["fetching org.example:one:1.0"]
    artifacts.class_path("org.example:one:1.0", lines.append)
    assert len(lines) == 1, "the file exists"


ARCHIVE = "org/example/one/1.0/one-1.0-all.tar.gz"


@pytest.fixture
def archived(tmp_path, monkeypatch):
    """Where an archive is, how often it is fetched, and its sum."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    file = tmp_path / "maven" / ARCHIVE
    fetched = []

    def fetch(coordinates, folder, report):
        fetched.append(coordinates)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"content")

    monkeypatch.setattr(artifacts, "_fetch", fetch)
    sums = {ARCHIVE: hashlib.sha256(b"content").hexdigest()}
    monkeypatch.setattr(artifacts, "_sums", lambda: sums)
    return file, fetched, sums


def test_an_archive_is_downloaded_once(archived):
    file, fetched, _ = archived
    for _ in range(2):
        assert artifacts.archive("org.example:one:1.0:tar.gz:all") == file
    assert fetched == ["org.example:one:1.0:tar.gz:all"]


def test_an_archive_with_another_sum_is_neither_used_nor_kept(archived):
    file, fetched, sums = archived
    artifacts.archive("org.example:one:1.0:tar.gz:all")
    file.write_bytes(b"another")
    with pytest.raises(ArtifactError, match="it is rejected"):
        artifacts.archive("org.example:one:1.0:tar.gz:all")
    assert not file.exists()
    sums.clear()
    with pytest.raises(ArtifactError, match="has no checksum for it"):
        artifacts.archive("org.example:one:1.0:tar.gz:all")
    assert not file.exists()
    assert len(fetched) == 2


def test_make_setup_downloads_no_archive():
    assert all(len(part.split(":")) == 3 for all_of in Artifacts for part in all_of.split("+"))


def test_every_used_file_has_a_listed_sum():
    sums = artifacts._sums()
    assert len(sums) > 50
    assert all(len(total) == 64 for total in sums.values())


def test_a_clone_uses_the_downloads_of_make(tmp_path, monkeypatch):
    """`.venv/bin/penstock dev` is started without make, and would download the files again."""
    clone, home = tmp_path / "clone", tmp_path / "home"
    module = clone / "src" / "penstock" / "kafka" / "artifacts.py"
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(artifacts, "__file__", str(module))
    assert artifacts.cache_folder() == home / "penstock"

    (clone / ".cache" / "maven").mkdir(parents=True)
    assert artifacts.cache_folder() == clone / ".cache"
    monkeypatch.setenv("PENSTOCK_CACHE", "/elsewhere")
    assert str(artifacts.cache_folder()) == "/elsewhere"
