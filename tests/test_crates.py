"""Only crates of the list are built for native/."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[1]
CHECK, SUMS = ROOT / "native" / "check_crates.py", ROOT / "native" / "crates.sha256"


def lock_file(folder: Path, crates: dict[str, str]) -> Path:
    """Write a lock file as Cargo does, without its addresses."""
    file = folder / "Cargo.lock"
    own = '[[package]]\nname = "penstock-native"\nversion = "0.1.0"\n'
    parts = []
    for crate, checksum in crates.items():
        name, _, version = crate.removesuffix(".crate").rpartition("-")
        text = f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = "registry+x"\n'
        parts.append(text + (f'checksum = "{checksum}"\n' if checksum else ""))
    file.write_text("version = 4\n\n" + "\n".join((own, *parts)))
    return file


def listed() -> dict[str, str]:
    lines = (line.split() for line in SUMS.read_text().splitlines())
    return {name: checksum for checksum, name in lines}


def check(lock: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECK), str(lock), str(SUMS)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_crates_of_the_list_are_built(tmp_path):
    assert listed()
    checked = check(lock_file(tmp_path, listed()))
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("crate", "checksum", "result"),
    [
        ("another-1.0.0.crate", "a" * 64, "another-1.0.0.crate is not in the list"),
        (None, "a" * 64, "has another SHA-256 sum"),
        (None, "", "has another SHA-256 sum"),
    ],
    ids=["a new crate", "another one of the same name", "no checksum"],
)
def test_other_crates_are_not_built(tmp_path, crate, checksum, result):
    crates = listed()
    crates[crate or next(iter(crates))] = checksum
    checked = check(lock_file(tmp_path, crates))
    assert checked.returncode == 1
    assert result in checked.stderr
    assert checked.stderr.count("\n") == 1


def test_each_direct_dependency_is_exact_and_listed():
    crate = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())
    # Cargo takes no build metadata (`+zstd.1.5.7`) in a requirement.
    names = {re.sub(r"\+.*(?=\.crate$)", "", name) for name in listed()}
    every = crate["dependencies"] | crate["build-dependencies"]
    for system in crate["target"].values():
        every |= system.get("dependencies", {})
    for name, wanted in every.items():
        version = wanted if isinstance(wanted, str) else wanted["version"]
        assert f"{name}-{version.removeprefix('=')}.crate" in names
        assert version.startswith("=")


def test_native_is_not_built_before_its_crates_are_checked():
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^FROM_CRATES = .*\$\(CHECK_CRATES\)$", text, re.MULTILINE)
    text = text.replace("$(BY_ZIG)", re.search(r"^BY_ZIG = (.*)$", text, re.MULTILINE)[1])
    recipes = [
        recipe
        for recipe in re.split(r"\n(?=\S)", text)
        if re.search(r"\$\(MATURIN\) (develop|build)", recipe) and not recipe.startswith("BY_ZIG")
    ]
    assert len(recipes) == 4
    for recipe in recipes:
        before, _, _ = recipe.partition("$(MATURIN)")
        assert "$(FROM_CRATES)" in before
