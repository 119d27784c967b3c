"""Policies for Kafka records and topics, enforced before anything is stored."""

from penstock._native import __version__

__all__ = ["__version__"]
