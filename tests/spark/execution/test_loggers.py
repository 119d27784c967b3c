"""Texts of errors that may have contents are not logged, and others are."""

import logging

import pytest
from pyspark.logger import PySparkLogger

from penstock.spark.execution.loggers import quiet_loggers

pytestmark = pytest.mark.unit


def passes(module):
    """Return whether the root logger lets a record of a module pass."""
    record = logging.LogRecord("any", logging.ERROR, f"/x/{module}.py", 1, "text", (), None)
    return bool(logging.getLogger().filter(record))


def test_py4j_is_silent_while_a_command_runs():
    with quiet_loggers():
        assert [passes(module) for module in ("java_gateway", "clientserver")] == [False, False]
        assert passes("session")
    assert passes("java_gateway")
    assert passes("clientserver")


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_errors_with_contents_are_silent_also_if_the_command_fails(name):
    logger = PySparkLogger.getLogger(name)
    with pytest.raises(KeyError), quiet_loggers():
        assert logger.disabled
        raise KeyError
    assert not logger.disabled
    assert passes("java_gateway")
