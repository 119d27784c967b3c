"""Configurations of an audit trail."""

from pathlib import Path

from penstock.configuration import load_configuration
from penstock.configuration.model import Configuration
from tests.gateways import write_configuration


def configuration(folder: Path, **keys: object) -> Configuration:
    return load_configuration(write_configuration(folder, "127.0.0.1:1", 9192, keys))
