"""A real Apache Kafka on this machine: for `penstock dev`, the demo and the tests."""

from penstock.local.broker import LocalKafka, LocalNode, class_path
from penstock.local.errors import LocalKafkaError
from penstock.local.ports import free_ports
from penstock.local.tools import run_tool

__all__ = [
    "LocalKafka",
    "LocalKafkaError",
    "LocalNode",
    "class_path",
    "free_ports",
    "run_tool",
]
