"""Configurations of an audit trail."""

from penstock.configuration import load_configuration
from tests.gateways import write_configuration


def configuration(folder, **keys):
    return load_configuration(write_configuration(folder, "127.0.0.1:1", 9192, keys))
