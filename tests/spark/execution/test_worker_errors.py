"""Our errors come without a traceback from Spark's workers; those of others keep theirs."""

import os
import sys
import types

import pytest
from pyspark.errors import PySparkException

from penstock.configuration import ConfigurationError
from penstock.kafka.client.errors import ClientError
from penstock.kafka.client.protocol.write_errors import FencedError
from penstock.kafka.wire.errors import WireError
from penstock.spark.execution.failures import reason_of
from penstock.spark.execution.worker_errors import in_one_line


@pytest.fixture(params=["pyspark.daemon", "penstock.spark.daemon"])
def worker(monkeypatch, request):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    module = types.ModuleType("__main__")
    module.__spec__ = types.SimpleNamespace(name=request.param)
    monkeypatch.setitem(sys.modules, "__main__", module)
    yield
    os.environ.pop("SPARK_HIDE_TRACEBACK", None)


@pytest.mark.parametrize(
    ("error", "hides"), [(ConfigurationError("x"), True), (ValueError("x"), False)]
)
def test_only_errors_of_ours_hide_it(worker, error, hides):
    with pytest.raises(type(error)), in_one_line():
        raise error
    assert ("SPARK_HIDE_TRACEBACK" in os.environ) is hides


def test_outside_of_a_worker_nothing_changes(monkeypatch):
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(ConfigurationError), in_one_line():
        raise ConfigurationError("x")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


@pytest.mark.parametrize("error", [FencedError, WireError, ClientError])
def test_the_text_of_an_error_at_the_cluster_is_the_reason(error):
    """Its class is found by its module's name, in what a worker reports."""
    text = f"Traceback (most recent call last):\n{error.__module__}.{error.__name__}: it is late\n"
    assert reason_of(PySparkException(text)) == ("a task at the cluster failed: it is late", 3)
