"""Policies for Kafka records and topics, enforced before anything is stored."""

__version__ = "0.1.0"
