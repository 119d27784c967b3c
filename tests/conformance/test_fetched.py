"""Fetched files have the expected sum."""

import hashlib

import pytest

from tests.conformance.commands import BuildError
from tests.conformance.fetched import check, crate


def test_a_file_with_its_sum_is_taken(tmp_path):
    file = tmp_path / "a.crate"
    file.write_bytes(b"a")

    check(file, hashlib.sha256(b"a").hexdigest())


def test_a_file_with_another_sum_is_not_taken(tmp_path):
    file = tmp_path / "a.crate"
    file.write_bytes(b"b")

    with pytest.raises(BuildError, match=r"a\.crate has the SHA-256 sum"):
        check(file, hashlib.sha256(b"a").hexdigest())


def test_copied_files_are_not_fetched_again(tmp_path):
    (tmp_path / "a-1.0.0").mkdir()

    assert crate("a", "1.0.0", "", tmp_path) == tmp_path / "a-1.0.0"
