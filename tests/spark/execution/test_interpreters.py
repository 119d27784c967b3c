"""The interpreter of Spark's Python workers: a wrong one is an error before a job starts."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.configuration import ConfigurationError
from penstock.spark.execution.interpreters import check_workers

pytestmark = pytest.mark.system


def session(python, master="local[2]"):
    return SimpleNamespace(_sc=SimpleNamespace(master=master, pythonExec=str(python)))


@pytest.fixture
def script(tmp_path):
    def make(text):
        file = tmp_path / "python"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    return make


def error_of(python):
    with pytest.raises(ConfigurationError) as caught:
        check_workers(session(python))
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(f"Spark's Python workers use {python}, which ")
    assert text.endswith(f"SETTINGS, or set PYSPARK_PYTHON before, to {sys.executable}")
    return text


def test_an_interpreter_without_penstock(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    text = error_of(tmp_path / "bare" / "bin" / "python")
    assert "cannot import Penstock (ModuleNotFoundError: No module named 'penstock')" in text


def test_an_interpreter_of_another_version(script):
    assert "which is Python 3.9 and not " in error_of(script("printf 3.9"))


def test_an_interpreter_that_does_not_run(tmp_path, script):
    assert "which does not exist: " in error_of(tmp_path / "none")
    broken = script("")
    broken.write_text("no program")
    assert "which does not start (OSError): " in error_of(broken)


@pytest.mark.parametrize(
    "given",
    [
        session(sys.executable),
        session(Path(sys.executable).with_name("python3")),
        session("/none", "spark://host:7077"),
        SimpleNamespace(),
    ],
)
def test_the_own_interpreter_and_those_elsewhere(given):
    check_workers(given)


NAMES = ("PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONF_DIR")
SHOW = """
import os
from penstock.spark import SETTINGS
print(SETTINGS.get("spark.pyspark.python"), os.environ.get("PYSPARK_PYTHON"))
"""
WITHOUT_JVM = """
import sys

class Client:
    '''As pyspark-client, which has neither a SparkContext nor py4j.'''
    def find_spec(self, name, path=None, target=None):
        if name.startswith("py4j") or name in ("pyspark.core", "pyspark.context"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Client())
"""


def shown(code, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_workers_use_this_interpreter():
    assert shown(SHOW) == f"{sys.executable} {sys.executable}"


@pytest.mark.parametrize("name", NAMES)
def test_an_interpreter_that_is_chosen_elsewhere_stays(name):
    kept = "/opt/python" if name == "PYSPARK_PYTHON" else None
    assert shown(SHOW, **{name: "/opt/python"}) == f"None {kept}"


def test_a_client_of_spark_connect_has_settings_and_every_function():
    names = "import penstock.spark as it\nfor name in it.__all__: getattr(it, name)"
    assert shown(WITHOUT_JVM + SHOW + names) == "None None"
