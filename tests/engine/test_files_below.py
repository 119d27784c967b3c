"""Files below folders: by names that do not depend on the place, without environments and loops."""

import pytest

from penstock.engine.plans import files_below as module
from penstock.engine.plans.files_below import CODE, NotKnownError, files_below


@pytest.fixture
def folder(tmp_path):
    """Writes empty files below a folder, and returns it."""

    def write(*names):
        for name in names:
            file = tmp_path / "here" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        return tmp_path / "here"

    return write


def names_below(folder, endings=None):
    return sorted(name for name, _ in files_below(folder, "x", endings))


def test_files_have_names_from_the_folder_on(folder):
    here = folder("a.py", "sub/deep/b.py")
    found = dict(files_below(here, "x", CODE))
    assert found == {"x/a.py": here / "a.py", "x/sub/deep/b.py": here / "sub/deep/b.py"}


def test_endings(folder):
    here = folder("a.py", "b.so", "c.txt", "d")
    assert names_below(here, CODE) == ["x/a.py", "x/b.so"]
    assert names_below(here) == ["x/a.py", "x/b.so", "x/c.txt", "x/d"]


def test_hidden_folders_and_compiled_files_are_left_out_and_hidden_files_are_not(folder):
    here = folder(
        ".git/a.py", "__pycache__/a.pyc", ".hidden.py", "sub/__pycache__/b.py", "sub/b.py"
    )
    assert names_below(here, CODE) == ["x/.hidden.py", "x/sub/b.py"]


def test_a_virtual_environment_is_left_out_unless_it_is_the_folder_itself(folder):
    here = folder("a.py", "env/pyvenv.cfg", "env/b.py", "env/lib/c.py")
    assert names_below(here, CODE) == ["x/a.py"]
    assert names_below(here / "env", CODE) == ["x/b.py", "x/lib/c.py"]


def test_a_folder_behind_a_link_counts_and_a_loop_ends(folder, tmp_path):
    here = folder("sub/a.py")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.py").touch()
    (here / "linked").symlink_to(tmp_path / "other")
    (here / "sub" / "loop").symlink_to(here)
    assert names_below(here, CODE) == ["x/linked/b.py", "x/sub/a.py"]


def test_links_to_nothing_are_no_files(folder):
    here = folder("a.py")
    (here / "b.py").symlink_to(here / "none")
    (here / "c").symlink_to(here / "none")
    assert names_below(here) == ["x/a.py"]


def test_there_may_be_a_number_of_files_and_folders(folder, monkeypatch):
    here = folder("a.py", "sub/b.py", "c.txt")
    monkeypatch.setattr(module, "FILES_MAX", 4)
    assert names_below(here, CODE) == ["x/a.py", "x/sub/b.py"]
    monkeypatch.setattr(module, "FILES_MAX", 3)
    with pytest.raises(NotKnownError, match="here has more than 3 files"):
        names_below(here, CODE)
