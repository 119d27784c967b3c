"""What policy workers and Spark's executors get of a configuration."""

import pickle
import subprocess
import sys

import pytest

from penstock.configuration import PolicyConfiguration, load_configuration

FILE = """\
upstream.bootstrap.servers=a:9092
record.validator.classes=a.B,c.D
record.validation.policy.class.name=x.Y
record.validation.policy.class.path=lib:/opt/lib
topics.pii-*.record.validation.policy=x-schema
own.key=Gr\u00f6\u00dfe
"""


def _policies(folder):
    file = folder / "penstock.properties"
    file.write_text(FILE, encoding="utf-8")
    return load_configuration(file).policies


def test_it_comes_through_json_and_pickle_unchanged(tmp_path):
    policies = _policies(tmp_path)

    assert PolicyConfiguration.decode(policies.encode()) == policies
    assert pickle.loads(pickle.dumps(policies)) == policies


def test_it_has_the_values_of_the_configuration(tmp_path):
    policies = _policies(tmp_path)

    assert policies.folder == tmp_path
    assert policies.record_validator_classes == ("a.B", "c.D")
    assert policies.topic_defaults[0].glob == "pii-*"
    assert [str(folder) for folder in policies.class_path] == [str(tmp_path / "lib"), "/opt/lib"]
    assert policies.properties["own.key"] == "Gr\u00f6\u00dfe"
    assert policies.decompressed_batch_max_records == 500_000


@pytest.mark.system
def test_processes_that_run_policies_do_without_pydantic():
    """It would cost each worker a tenth of a second and its memory."""
    program = (
        "import penstock.engine.workers.processes.process, sys; sys.exit('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.system
def test_executors_of_spark_do_without_pydantic():
    program = (
        "import penstock.spark, penstock.jobs.plan, penstock.spark.evaluation, sys; "
        "sys.exit('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
