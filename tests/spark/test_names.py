"""The names of `penstock.spark`: each can be imported, and none is imported before it is used."""

import os
import subprocess
import sys

import penstock.spark


def test_every_name_can_be_imported():
    assert all(getattr(penstock.spark, name) is not None for name in penstock.spark.__all__)


def test_settings_and_daemon_import_no_session():
    program = (
        "import sys; from penstock.spark import SETTINGS; "
        "print({'py4j', 'penstock.spark.session', 'penstock.spark.functions'} & set(sys.modules))"
    )
    environment = {name: text for name, text in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
