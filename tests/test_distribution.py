"""The output of `make dist` works in a separate environment and folder."""

import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

import penstock

ROOT = Path(__file__).parents[1]
POLICIES = """
from penstock.policy import BrokerRecordValidator
class One(BrokerRecordValidator):
    def validate_record(self, *_): pass
"""
MACHINES = {"x86_64": 62, "aarch64": 183}
CONFIGURATION = """
upstream.bootstrap.servers=nowhere.invalid:9092
record.validator.classes=policies.One
"""


@pytest.mark.dist
@pytest.mark.system
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["penstock_kafka-*.whl", "penstock_kafka-*.tar.gz"])
def test_a_wheel_can_be_installed_and_checks_a_configuration(kind, tmp_path):
    if kind.endswith(".whl"):
        wheel = wheels()[platform.machine()]
    else:
        [sdist] = (ROOT / "dist").glob(kind)
        wheel = build_wheel(sdist, tmp_path)
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
    assert "connections: native\n" in version
    assert checked.endswith("topics *\n  1. record  policies.One\nok\n")


@pytest.mark.dist
@pytest.mark.system
def test_each_architecture_that_rust_builds_for_has_a_wheel():
    assert set(wheels()) == architectures()


@pytest.mark.dist
def test_the_extension_in_a_wheel_is_for_the_architecture_of_its_name():
    for architecture, wheel in wheels().items():
        with zipfile.ZipFile(wheel) as files:
            [library] = [name for name in files.namelist() if name.endswith(".so")]
            [machine] = struct.unpack_from("<H", files.read(library), 18)  # e_machine of ELF
        assert machine == MACHINES[architecture]


@pytest.mark.dist
@pytest.mark.system
def test_a_wheel_has_the_licences_of_the_crates_in_it():
    for wheel in wheels().values():
        with zipfile.ZipFile(wheel) as files:
            [name] = [name for name in files.namelist() if name.endswith("/NOTICES.txt")]
            assert ".dist-info/licenses/" in name
            assert re.search(r"^rustls [\d.]+ \(", files.read(name).decode(), re.MULTILINE)


@pytest.mark.dist
@pytest.mark.system
def test_the_sdist_has_no_lock_file_with_addresses():
    [sdist] = (ROOT / "dist").glob("penstock_kafka-*.tar.gz")
    with tarfile.open(sdist) as files:
        names = files.getnames()
    assert any(name.endswith("/native/Cargo.toml") for name in names)
    assert not [name for name in names if name.endswith("Cargo.lock")]


@pytest.mark.system
def test_make_dist_reports_the_wheels_that_it_does_not_build():
    steps = run(ROOT, "make", "--dry-run", "dist", "TARGETS=x86_64-unknown-linux-gnu")
    [line] = [line for line in steps.splitlines() if "dist/ has no wheel" in line]
    assert "for aarch64-unknown-linux-gnu" in line
    assert "rustup target add aarch64-unknown-linux-gnu" in line


@pytest.mark.system
@pytest.mark.parametrize(
    ("page", "folder"),
    [("README.md", ""), ("docs/getting-started.md", "dist"), ("docs/pipeline.md", "")],
)
def test_the_documents_install_only_wheels_for_this_machine(page, folder, tmp_path):
    [command] = re.findall(
        r"pip install (\"\$\(ls (?:dist/)?penstock_kafka-[^`\n#]*)", (ROOT / page).read_text()
    )
    dist = tmp_path / "dist"
    dist.mkdir()
    for machine in MACHINES:
        (dist / wheel_name(machine)).touch()
    packages = run(tmp_path / folder, "sh", "-c", f"printf '%s\n' {command}").split()
    [wheel] = [Path(package.partition("[")[0]).name for package in packages if ".whl" in package]
    assert wheel == wheel_name(platform.machine())
    assert parse_wheel_filename(wheel)[3] & set(sys_tags()), wheel


def wheel_name(architecture: str) -> str:
    """Name a wheel as `make dist` names it."""
    tags = f"manylinux2014_{architecture}.manylinux_2_17_{architecture}"
    return f"penstock_kafka-0.1.0-cp311-abi3-{tags}.whl"


@pytest.mark.parametrize(
    "requirements", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda file: file.name
)
def test_requirements_have_no_address_of_a_package_index(requirements):
    lines = requirements.read_text().splitlines()
    options = {line.split()[0] for line in lines if line.strip() and "--hash=" not in line}
    assert not {option for option in options if option.startswith("-")} - {"-r"}


def wheels() -> dict[str, Path]:
    """Return the wheels by architecture; each is for any Python with the stable ABI."""
    built = list((ROOT / "dist").glob("penstock_kafka-*.whl"))
    names = [
        re.search(r"-cp311-abi3-manylinux[.\w]*_(x86_64|aarch64)\.whl$", wheel.name)
        for wheel in built
    ]
    assert all(names), built
    return {name[1]: wheel for name, wheel in zip(names, built, strict=True) if name}


def architectures() -> set[str]:
    """Return the architectures for which the installed Rust has a standard library."""
    if not shutil.which("rustc"):
        return set()
    folder = Path(run(ROOT, "rustc", "--print", "sysroot").strip()) / "lib" / "rustlib"
    return {name for name in MACHINES if (folder / f"{name}-unknown-linux-gnu" / "lib").is_dir()}


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
    """Run a command outside of this checkout; return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The build backend starts a program of this environment.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
