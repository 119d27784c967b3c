"""What a connection costs that does nothing, `make bench-connections`.

Opens connections that asked for versions once, in steps, and prints the memory of the gateway's
process for each of them. Bounded: 4,000 connections, half a minute on two cores.
"""

import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from rich.console import Console

from penstock.local import LocalKafka, free_ports

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gateways import RunningGateway, resident_bytes, write_configuration  # noqa: E402
from tests.hostile.greedy import place  # noqa: E402
from tests.raw import request_frame  # noqa: E402

POLICIES = """
from penstock.policy import *
class Passes(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers): pass
"""
STEPS = (1_000, 2_000, 4_000)
HELLO = request_frame(
    ApiVersionsRequest(client_software_name="idle", client_software_version="1"), 1
)
say = Console(highlight=False).print


def main() -> None:
    """Measure and print."""
    with LocalKafka() as kafka, tempfile.TemporaryDirectory() as temporary, ExitStack() as ends:
        file = write_configuration(
            Path(temporary),
            kafka.bootstrap_servers,
            free_ports(3)[0],
            {"record.validator.classes": "policies.Passes", "policy.workers": 1},
            POLICIES,
        )
        running = RunningGateway(file)
        ends.callback(running.stop)
        before, opened = resident_bytes(running.pid), 0
        for count in STEPS:
            for _ in range(count - opened):
                connection = ends.enter_context(socket.create_connection(place(running.address)))
                connection.sendall(HELLO)
                assert connection.recv(4), "the gateway closed it"
            opened = count
            time.sleep(1)
            grown = resident_bytes(running.pid) - before
            each = grown / count / 1024
            say(f"{count} idle connections: {grown / 2**20:.0f} MiB, {each:.1f} KiB each")


if __name__ == "__main__":
    main()
