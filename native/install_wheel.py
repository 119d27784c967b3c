"""Installs a built wheel so that the code of this checkout is used, with the wheel's extension.

Usage: python native/install_wheel.py dist/penstock_kafka-*.whl
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = ("penstock", "pyspark_penstock")
_EXTENSION: Final = re.compile(r"penstock/_native\.[^/]+")


def install(wheel: Path) -> None:
    """Install a wheel into this environment, without its dependencies.

    Raises:
        SystemExit: pip does not install it, or it has no extension.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run([*pip, "--force-reinstall", str(wheel)], check=False)
    if done.returncode:
        sys.exit(f"{wheel} cannot be installed here: remove it, and native/ is built")
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if _EXTENSION.fullmatch(name)]
        if not names:
            sys.exit(f"{wheel} has no extension")
        (ROOT / "src" / names[0]).write_bytes(files.read(names[0]))
    packages = Path(sysconfig.get_path("purelib"))
    for package in _PACKAGES:
        shutil.rmtree(packages / package, ignore_errors=True)
    (packages / "penstock_kafka.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")


if __name__ == "__main__":
    install(Path(sys.argv[1]))
