"""The man page and the shell completions are generated from the parser, and valid."""

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHARE = ROOT / "share"
BASH = "bash-completion/completions/penstock"
READERS = {
    "bash": ["bash", "-n", BASH],
    "zsh": ["zsh", "-n", "zsh/site-functions/_penstock"],
    "fish": ["fish", "--no-execute", "fish/vendor_completions.d/penstock.fish"],
    "mandoc": ["mandoc", "-T", "lint", "-W", "error", "man/man1/penstock.1"],
    "man": ["man", "--warnings", "--local-file", "man/man1/penstock.1"],
}
"""Programs that check the files, if installed; bash is always installed."""
COMPLETE = """
source "$1"; shift
function=$(complete -p penstock | sed -E 's/.* -F ([^ ]+) .*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
"$function" penstock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" || true
printf '%s\\n' "${COMPREPLY[@]}"
"""
pytestmark = pytest.mark.system


def completed(folder: Path, *words: str) -> set[str]:
    done = subprocess.run(
        ["bash", "-c", COMPLETE, "bash", str(SHARE / BASH), *words],
        cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stdout.split())


def test_the_files_agree_with_the_parser(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    made = runpy.run_path(str(SHARE / "make.py"))["completions_and_man_page"]()
    changed = [path for path, text in made.items() if (SHARE / path).read_text() != text]
    assert changed == [], "make man writes them"


def test_bash_completes_commands(tmp_path):
    assert completed(tmp_path, "penstock", "re") == {"redact", "redrive"}


def test_bash_completes_options_of_a_command(tmp_path):
    assert completed(tmp_path, "penstock", "check", "--con") == {"--connect"}
    assert completed(tmp_path, "penstock", "split", "--reject") == {"--rejected"}


def test_bash_completes_values(tmp_path):
    assert completed(tmp_path, "penstock", "--log-level", "w") == {"warning"}


def test_bash_completes_files(tmp_path):
    (tmp_path / "penstock.properties").touch()
    assert completed(tmp_path, "penstock", "gateway", "pen") == {"penstock.properties"}


@pytest.mark.parametrize("reader", [reader for reader in READERS if shutil.which(reader)])
def test_installed_programs_find_no_mistake_in_the_files(reader):
    done = subprocess.run(
        READERS[reader], cwd=SHARE, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    if reader == "mandoc":
        assert done.stdout == ""


def test_the_man_page_has_every_command():
    from penstock.cli import COMMANDS

    page = (SHARE / "man/man1/penstock.1").read_text()
    for command in COMMANDS:
        assert f"penstock {command}" in page
    assert ".SH EXIT STATUS" in page
