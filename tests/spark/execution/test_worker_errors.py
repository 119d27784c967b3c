"""Our errors come without a traceback from Spark's workers; those of others keep theirs."""

import os
import sys
import types

import pytest

from penstock.configuration import ConfigurationError
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
