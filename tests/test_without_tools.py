"""`make setup` builds the extension where no cargo and no C compiler is: `make without-tools`."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = [pytest.mark.dist, pytest.mark.system, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[1]
TOOLS = """
    bash sh make sed find ls head tail env touch echo rm uname sort cp mv grep git cat mkdir awk
    dirname basename ln chmod printf true
"""


@pytest.fixture
def tools(tmp_path) -> Path:
    """A folder with the programs of a small machine."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS.split():
        program = shutil.which(name)
        if program:
            (folder / name).symlink_to(program)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    return folder


@pytest.fixture
def server(tmp_path):
    """Serves a `rustup-init` that installs the toolchain of this machine; yields its URL."""
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    ).stdout.strip()
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    [triple] = [line.split()[1] for line in host.splitlines() if line.startswith("host: ")]
    installer = tmp_path / "served" / "dist" / triple / "rustup-init"
    installer.parent.mkdir(parents=True)
    installer.write_text(
        "#!/bin/sh\n"
        'mkdir -p "$CARGO_HOME/bin" "$RUSTUP_HOME"\n'
        f'for tool in cargo rustc; do ln -sf {sysroot}/bin/$tool "$CARGO_HOME/bin/$tool"; done\n'
    )
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "served")
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def made(clone: Path, tools: Path, rustup: str) -> subprocess.CompletedProcess[str]:
    """Make the extension of a clone."""
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("CARGO", "RUST", "MAKE", "MFLAGS", "VIRTUAL_ENV", "PENSTOCK"))
    }
    environment |= {"PATH": str(tools), "RUSTUP_UPDATE_ROOT": rustup}
    command = ["make", ".venv/.native"]
    return subprocess.run(
        command, cwd=clone, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path) -> Path:
    """A clone with the files of this checkout, and its cache of packages."""
    folder = tmp_path / "clone"
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if (ROOT / ".cache" / "pip").is_dir():
        shutil.copytree(ROOT / ".cache" / "pip", folder / ".cache" / "pip")
    return folder


def test_rust_and_a_compiler_are_installed_into_the_cache(clone, tools, server):
    done = made(clone, tools, server)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    version = subprocess.run(
        [clone / ".venv" / "bin" / "penstock", "--version"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "connections: native\n" in version


def test_where_no_way_works_a_line_names_all_three(clone, tools):
    done = made(clone, tools, "http://127.0.0.1:9")
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Penstock needs")]
    assert "install Rust 1.87" in line
    assert "RUSTUP_DIST_SERVER" in line
    assert "a wheel of Penstock into dist/" in line
