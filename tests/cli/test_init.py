"""`penstock init`: a project that passes its own checks at once, and never replaces a file."""

import os
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.cli.starter import CONFIGURATION_FILE, FILES

NEW = {CONFIGURATION_FILE, "orders_policy.py", "test_orders_policy.py", "pyproject.toml"}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_init_writes_a_new_folder_and_names_each_file(tmp_path, capsys):
    folder = tmp_path / "a" / "new one"

    assert main(["init", str(folder)]) == 0

    output = capsys.readouterr().out
    assert set(contents(folder)) == NEW
    for name in NEW:
        assert f"wrote {folder / name}" in output
    assert f"cd '{folder}'" in output


def test_without_a_folder_init_writes_to_the_current_folder(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert set(contents(tmp_path)) == NEW
    assert "cd " not in capsys.readouterr().out


@pytest.mark.parametrize("names", [["orders_policy.py"], ["pyproject.toml", CONFIGURATION_FILE]])
def test_a_file_that_exists_is_named_and_nothing_is_written(tmp_path, capsys, names):
    for name in names:
        (tmp_path / name).write_text("mine")

    assert main(["init", str(tmp_path)]) == 2

    message = capsys.readouterr().err
    assert contents(tmp_path) == dict.fromkeys(names, "mine")
    assert message.count("\n") == 1
    for name in FILES:
        assert (name in message) == (name in names)


def test_a_dangling_link_is_an_existing_file(tmp_path):
    (tmp_path / "pyproject.toml").symlink_to(tmp_path / "elsewhere")
    assert main(["init", str(tmp_path)]) == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_written_is_2(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file" / "x")]) == 2
    assert f"{tmp_path / 'file' / 'x'}: cannot be written" in capsys.readouterr().err


def test_a_file_instead_of_the_folder_is_named_with_advice(tmp_path, capsys):
    file = tmp_path / "mine.properties"
    file.write_text("mine")

    assert main(["init", str(file)]) == 2

    message = f"penstock init: {file} is a file, and DIR must be a folder: penstock init NEW_FOLDER"
    assert capsys.readouterr().err.startswith(message)
    assert file.read_text() == "mine"


def test_files_written_before_an_error_are_removed(tmp_path, monkeypatch):
    opened = Path.open

    def full(path, *arguments, **options):
        if path.name == "pyproject.toml":
            raise OSError(28, "No space left on device")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    assert main(["init", str(tmp_path)]) == 2
    assert contents(tmp_path) == {}


def test_the_entry_point_names_the_policy(tmp_path, monkeypatch):
    main(["init", str(tmp_path)])
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    monkeypatch.syspath_prepend(str(tmp_path))

    [(name, value)] = project["entry-points"]["penstock.policies"].items()

    assert EntryPoint(name, value, "penstock.policies").load().__name__ == "Orders"


@pytest.mark.system
def test_check_and_pytest_pass_at_once(tmp_path):
    main(["init", str(tmp_path)])
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    runs = [
        subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=False, timeout=120,
        )
        for command in (["penstock", "check", CONFIGURATION_FILE], ["pytest", "-q"])
    ]  # fmt: skip
    assert [run.returncode for run in runs] == [0, 0], [run.stdout + run.stderr for run in runs]
    assert "orders_policy.Orders" in runs[0].stdout
    assert "warning" not in runs[0].stdout
    assert "6 passed" in runs[1].stdout


@pytest.mark.system
def test_the_project_is_a_package_that_can_be_built(tmp_path):
    project = tmp_path / "project"
    main(["init", str(project)])
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=project, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "orders_policy.py" in names
    assert not any("test_" in name for name in names)
