"""A real Apache Kafka on this machine: for `penstock dev`, the demo and the tests."""

from penstock.kafka.local.broker import LocalKafka, LocalNode, class_path
from penstock.kafka.local.errors import LocalKafkaError
from penstock.kafka.local.ports import free_ports
from penstock.kafka.local.tools import run_tool

__all__ = [
    "LocalKafka",
    "LocalKafkaError",
    "LocalNode",
    "class_path",
    "free_ports",
    "run_tool",
]
