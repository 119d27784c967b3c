"""The configuration file: its keys, its values, its errors."""

from penstock.configuration.errors import ConfigurationError
from penstock.configuration.file import (
    Configuration,
    TopicDefault,
    load_configuration,
    load_properties,
    read_configuration,
)
from penstock.configuration.values import Address, Listener

__all__ = [
    "Address",
    "Configuration",
    "ConfigurationError",
    "Listener",
    "TopicDefault",
    "load_configuration",
    "load_properties",
    "read_configuration",
]
