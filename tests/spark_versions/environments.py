"""Environments of versions of PySpark in the cache, each installed the first time."""

import os
import subprocess
import sys
from pathlib import Path

from penstock.kafka.artifacts import cache_folder

HERE = Path(__file__).parent


def environment(version: str) -> str:
    """Return the Python of a version; it is installed the first time."""
    folder = cache_folder() / f"spark-{version}"
    python, installed = folder / "bin" / "python", folder / ".installed"
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        cache = str(cache_folder() / "pip")
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--cache-dir", cache,
             f"pyspark=={version}"],
            check=True,
        )  # fmt: skip
        (site,) = folder.glob("lib/python*/site-packages")
        shared = [folder for folder in sys.path if folder.endswith("site-packages")]
        source = str(HERE.parents[1] / "src")
        (site / "zz-checkout.pth").write_text("\n".join([*shared, source]) + "\n")
        installed.touch()
    return str(python)


def variables(version: str) -> dict[str, str]:
    python = environment(version)
    without = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    # An environment that another checkout installed would import that checkout's source.
    source = str(HERE.parents[1] / "src")
    return {
        **without,
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": source,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
