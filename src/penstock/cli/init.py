"""Create a project with a configuration file, a policy and its unit test.

The project also has a pyproject.toml, to package the policy. `penstock check` and pytest pass
immediately. The command is not interactive, and overwrites no file.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.failures import ExitCode
from penstock.cli.starter import CONFIGURATION_FILE, FILES
from penstock.configuration import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "folder",
        metavar="DIR",
        nargs="?",
        default=".",
        help="the folder, created if it does not exist (default: the current folder)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    folder = Path(options.folder)
    _write(folder, FILES)
    for name in FILES:
        print(f"wrote {folder / name}")
    print("\nNext:")
    if folder.resolve() != Path.cwd():
        print(f"  cd {shlex.quote(str(folder))}")
    print(f"  penstock check {CONFIGURATION_FILE}    loads the policy and prints the plan")
    print("  python -m pytest                      runs its unit test (pip install pytest)")
    print(f"  penstock dev {CONFIGURATION_FILE}      starts Kafka and the gateway on this machine")
    return ExitCode.DONE


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, all of them or none.

    Raises:
        ConfigurationError: A file exists, or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(
            f"{folder} is a file, and DIR must be a folder: penstock init NEW_FOLDER writes a new "
            f"project, and penstock check {folder} checks a configuration file"
        )
    there = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise ConfigurationError(
            f"{folder} already has {', '.join(there)}, so nothing is written; name another folder: "
            "penstock init DIR"
        )
    written_files: list[Path] = []
    path = folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            path = folder / name
            with path.open("x", encoding="utf-8") as file:  # another process may have made it
                written_files.append(path)
                file.write(text)
    except OSError as error:
        for written_file in written_files:
            written_file.unlink(missing_ok=True)
        raise ConfigurationError(f"{path}: cannot be written: {error.strerror}") from None
