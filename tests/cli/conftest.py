"""What tests of several commands use."""

import pytest


@pytest.fixture
def file(tmp_path):
    """A configuration file whose cluster does not answer."""
    path = tmp_path / "penstock.properties"
    path.write_text("upstream.bootstrap.servers=127.0.0.1:1\n")
    return path
