"""Policies for Kafka records and topics, enforced before anything is stored."""

from importlib import import_module

__version__: str
__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Return the version, which the extension has.

    It is read at the first use: `make setup` fetches Kafka while the extension is built.
    """
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    version: str = import_module("penstock._native").__version__
    return version
