"""What `make dist` has built works elsewhere: in an environment and a folder of its own."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]
POLICIES = """
from penstock.policy import BrokerRecordValidator
class One(BrokerRecordValidator):
    def validate_record(self, *_): pass
"""
CONFIGURATION = """
upstream.bootstrap.servers=nowhere.invalid:9092
record.validator.classes=policies.One
"""


@pytest.mark.dist
@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["penstock-*.whl", "penstock-*.tar.gz"])
def test_it_installs_elsewhere_and_checks_a_configuration(kind, tmp_path):
    [built] = (ROOT / "dist").glob(kind)
    wheel = built if built.suffix == ".whl" else build_wheel(built, tmp_path)
    python = new_environment(tmp_path / "elsewhere")
    pip_install(python, "--require-hashes", "-r", str(ROOT / "requirements" / "runtime.txt"))
    pip_install(python, "--no-deps", "--no-index", str(wheel))
    (tmp_path / "policies.py").write_text(POLICIES)
    (tmp_path / "penstock.properties").write_text(CONFIGURATION)

    penstock_program = str(python.with_name("penstock"))
    version = run(tmp_path, penstock_program, "--version")
    checked = run(tmp_path, penstock_program, "check", "penstock.properties")

    run(tmp_path, penstock_program, "init", "new")
    started = run(tmp_path / "new", penstock_program, "check", "penstock.properties")
    assert "orders_policy.Orders" in started
    shared = python.parents[1] / "share"
    assert (shared / "man" / "man1" / "penstock.1").is_file()
    assert (shared / "bash-completion" / "completions" / "penstock").is_file()
    assert version.splitlines()[0] == f"penstock {penstock.__version__}"
    assert "PySpark is not installed" in version
    assert "record batches: Python\n" in version
    assert checked.endswith("topics *\n  1. record  policies.One\nok\n")
    for native in (ROOT / "dist").glob("penstock_native-*.whl"):
        assert "-cp311-abi3-" in native.name
        pip_install(python, "--no-deps", "--no-index", str(native))
        version = run(tmp_path, penstock_program, "--version")
        assert f"record batches: native {penstock.__version__}\n" in version


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Build from the sdist alone, with the build backend that is pinned in requirements/."""
    pip(Path(sys.executable), "wheel", "--no-deps", "--no-index", "--no-build-isolation",
        "--wheel-dir", str(folder), str(sdist))  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


def new_environment(folder: Path) -> Path:
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def pip_install(python: Path, *arguments: str) -> None:
    pip(python, "install", *arguments)


def pip(python: Path, *arguments: str) -> None:
    cache = Path(os.environ["PENSTOCK_CACHE"]) / "pip"
    run(cache.parent, str(python), "-m", "pip", *arguments, "--quiet", "--cache-dir", str(cache))


def run(folder: Path, *command: str) -> str:
    """Run a command that knows nothing of this checkout; return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
