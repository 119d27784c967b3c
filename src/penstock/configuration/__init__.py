"""The configuration file: its keys, its values, its errors.

`keys` declares the keys of the file, `topic_keys` those of topics; `file` reads a file into a
`model`, and each error names the key and says what is right. `clients` reads the keys after
`upstream.` and those of a schema registry. `processes` runs the code of users that a file names, in
processes that end. Values are checked here, but for what needs a library or another file.

The model is imported when a file is read: policy workers and Spark's executors import this
package, too, and do without pydantic. They get a `PolicyConfiguration`. Nothing here opens a
connection, or knows a built-in policy: policies declare their own keys. Begin with `keys.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration.errors import ConfigurationError, NotNowError
from penstock.configuration.policies import PolicyConfiguration
from penstock.configuration.topic_keys import TopicDefault
from penstock.configuration.values import Address, ListenerAddress

if TYPE_CHECKING:
    from penstock.configuration.file import load_configuration, read_configuration
    from penstock.configuration.model import Configuration

__all__ = [
    "Address",
    "Configuration",
    "ConfigurationError",
    "ListenerAddress",
    "NotNowError",
    "PolicyConfiguration",
    "TopicDefault",
    "load_configuration",
    "read_configuration",
]

_LAZY: Final = {
    "Configuration": "penstock.configuration.model",
    "load_configuration": "penstock.configuration.file",
    "read_configuration": "penstock.configuration.file",
}


def __getattr__(name: str) -> Any:
    """Import what needs the model when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
