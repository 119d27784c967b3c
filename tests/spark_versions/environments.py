"""Environments of versions of PySpark in the cache, each installed the first time."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from penstock.kafka.artifacts import cache_folder

HERE = Path(__file__).parent


PYSPARK: Final = "pyspark"
CLIENT: Final = "pyspark-client"
"""The package of Spark Connect alone: without a JVM, and without py4j."""
_WITHOUT_PY4J: Final = """
import sys

class WithoutPy4j:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "py4j":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, WithoutPy4j())
"""


def environment(version: str, package: str = PYSPARK) -> str:
    """Return the Python of a version; it is installed the first time."""
    folder = cache_folder() / f"{package.replace(PYSPARK, 'spark')}-{version}"
    python, installed = folder / "bin" / "python", folder / ".installed"
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        cache = str(cache_folder() / "pip")
        dependencies = ["--no-deps"] if package == CLIENT else []
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--cache-dir", cache, *dependencies,
             f"{package}=={version}"],
            check=True,
        )  # fmt: skip
        (site,) = folder.glob("lib/python*/site-packages")
        shared = [folder for folder in sys.path if folder.endswith("site-packages")]
        lines = [*shared, str(HERE.parents[1] / "src")]
        if package == CLIENT:  # the checkout's environment has it
            (site / "without_py4j.py").write_text(_WITHOUT_PY4J)
            lines.append("import without_py4j")
        (site / "zz-checkout.pth").write_text("\n".join(lines) + "\n")
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
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": source,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
