"""Settings of a client that was never configured."""

from pathlib import Path

from penstock.kafka.client.connections.settings import read_settings

FILE = Path("/nowhere/penstock.properties")
SETTINGS = read_settings(
    {"bootstrap.servers": "127.0.0.1:9092", "default.api.timeout.ms": "10000"}, FILE
)
