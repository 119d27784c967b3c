"""Distributed workers of Kafka Connect, each in its own cluster, through its REST API."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.kafka.local import free_ports
from tests.gateways import wait_until
from tests.interop.programs import Programs, Running, running

_START_S: Final = 300
_REQUEST_S: Final = 120
_STATE_S: Final = 120
_TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """A worker, and what the connectors of its process print."""

    def __init__(self, rest: str, process: Running, log: Path) -> None:
        self._rest = rest
        self._process = process
        self._log = log

    def call(self, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
        """Return the status and the body of a response."""
        request = urllib.request.Request(
            f"{self._rest}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_S) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def create(self, name: str, settings: Mapping[str, str]) -> tuple[int, Any]:
        """Create a connector with one task."""
        configs = {"name": name, "tasks.max": "1", **settings}
        return self.call("connectors", "POST", {"name": name, "config": configs})

    def delete(self, name: str) -> None:
        """Delete a connector, if it exists."""
        self.call(f"connectors/{name}", "DELETE")

    def connectors(self) -> list[str]:
        """Return the names of the connectors."""
        return list(self.call("connectors")[1])

    def task(self, name: str) -> dict[str, Any]:
        """Return the state of a connector's task; empty before it has a state."""
        status, found = self.call(f"connectors/{name}/status")
        return next(iter(found["tasks"]), {}) if status == 200 else {}

    def wait_for(self, name: str, state: str) -> str:
        """Wait for a state of a connector's task; return the trace of its failure."""
        wait_until(
            lambda: self.task(name).get("state") == state, _STATE_S, what=f"{name} to be {state}"
        )
        return str(self.task(name).get("trace", ""))

    def printed(self, what: str, topic: str) -> list[str]:
        """Return the values of a topic that connectors have printed."""
        return [line[2] for line in list(self._process.lines) if line[:2] == [what, topic]]

    def log(self) -> str:
        """Return the log of all workers of the process."""
        return self._log.read_text()


@contextlib.contextmanager
def running_workers(
    program: Programs, folder: Path, clusters: Mapping[str, Mapping[str, object]]
) -> Iterator[dict[str, Worker]]:
    """Run workers in one process; return them by the names of their clusters.

    Args:
        program: The one whose classes they have.
        folder: Where their files and their log are.
        clusters: The settings of each cluster's worker, with `bootstrap.servers`, by its name.
    """
    log, ports = folder / "workers.log", free_ports(len(clusters))
    rests = {name: f"http://127.0.0.1:{port}" for name, port in zip(clusters, ports, strict=True)}
    files = [
        _write_settings(folder / f"{name}.properties", name, {"listeners": rests[name], **settings})
        for name, settings in clusters.items()
    ]
    command = [*program.command("Workers.java", log_level="error"), *files]
    with running(command, log) as process:
        wait_until(lambda: process.lines or process.has_ended, _START_S, what="the workers")
        assert not process.has_ended, log.read_text()[-4000:]
        yield {name: Worker(rest, process, log) for name, rest in rests.items()}


def _write_settings(file: Path, cluster: str, settings: Mapping[str, object]) -> str:
    """Write the file of a worker; return its name."""
    topics = {
        f"{kind}.storage.topic": f"connect-{kind}-{cluster}"
        for kind in ("config", "offset", "status")
    }
    replicas = {key.replace("topic", "replication.factor"): 1 for key in topics}
    lines = {
        "group.id": cluster,
        "key.converter": _TEXT,
        "value.converter": _TEXT,
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": 100,
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
        **topics,
        **replicas,
        **settings,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return str(file)
