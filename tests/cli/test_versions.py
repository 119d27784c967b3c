"""The lines of `penstock --version`."""

import platform
from importlib import metadata

import pytest

from penstock import __version__
from penstock.cli.versions import versions
from penstock.gateway.lane.availability import describe_lane


def test_the_lines():
    first, python, connections, kafka, _ = versions()
    assert first == f"penstock {__version__}"
    assert python == f"Python {platform.python_version()}"
    assert connections == f"connections: {describe_lane()}"
    assert kafka.startswith("Kafka protocol: Produce ")
    assert ", ApiVersions 0-" in kafka


def test_an_invalid_variable_is_reported_where_it_matters(monkeypatch):
    monkeypatch.setenv("PENSTOCK_NATIVE_LANE", "yes")
    assert "connections: PENSTOCK_NATIVE_LANE=yes: it must be 0" in versions()[2]


@pytest.mark.parametrize(
    ("version", "line"), [("4.2.0", "PySpark 4.2.0"), (None, "PySpark is not installed")]
)
def test_pyspark_may_be_missing(monkeypatch, version, line):
    def version_of(name):
        assert name == "pyspark"
        if version is None:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(metadata, "version", version_of)
    assert versions()[-1] == line
