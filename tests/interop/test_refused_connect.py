"""A source connector of Kafka Connect behind a gateway that refuses some of its records (docs/failures.md#clients)."""

import json
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.local.ports import free_ports
from tests.gateways import wait_until
from tests.integration.reading import values_of
from tests.interop.conftest import JAVA, REASON
from tests.java import program

pytestmark = pytest.mark.interop
VALUES = "good-0,bad-1,good-2"


class Worker:
    """A standalone worker with a single connector, `source`."""

    def __init__(self, rest: str) -> None:
        self._rest = rest
        self.lines: list[list[str]] = []
        """What the connector's task has printed."""

    def task(self) -> dict:
        """Return the state of the connector's task; empty before it has a state."""
        try:
            with urllib.request.urlopen(
                f"{self._rest}/connectors/source/status", timeout=60
            ) as reply:
                return next(iter(json.load(reply)["tasks"]), {})
        except urllib.error.URLError:
            return {}

    def restart(self) -> None:
        """Restart the connector's task."""
        url = f"{self._rest}/connectors/source/tasks/0/restart"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
            pass


@contextmanager
def connect(address: str, folder: Path, topic: str, **settings: str) -> Iterator[Worker]:
    """Run a worker whose connector writes VALUES to a topic."""
    [port] = free_ports()
    worker, rest = folder / "worker.properties", f"http://127.0.0.1:{port}"
    text = "org.apache.kafka.connect.storage.StringConverter"
    worker.write_text(
        f"bootstrap.servers={address}\nlisteners={rest}\nkey.converter={text}\nvalue.converter={text}\n"
        f"offset.storage.file.filename={folder / 'offsets'}\noffset.flush.interval.ms=100\n"
    )
    connector = folder / "source.properties"
    configs = {"name": "source", "connector.class": "RefusedConnect$Values", "tasks.max": "1",
             "topic": topic, "values": VALUES, **settings}  # fmt: skip
    connector.write_text("".join(f"{key}={value}\n" for key, value in configs.items()))
    command = [*program(JAVA / "RefusedConnect.java"), str(worker), str(connector)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        found = Worker(rest)
        reader = threading.Thread(
            target=lambda: found.lines.extend(
                line.rstrip("\n").split("\t") for line in running.stdout
            )
        )
        reader.start()
        try:
            yield found
        finally:
            running.terminate()
            running.wait(120)
            reader.join(60)


def test_by_default_a_refusal_fails_the_task_and_a_restart_retries_the_record(
    judged, topic, stored, tmp_path
):
    target = topic()
    with connect(judged.address, tmp_path, target) as worker:
        wait_until(lambda: worker.task().get("state") == "FAILED", 300, what="its end")
        assert f"InvalidRecordException: {REASON}" in worker.task()["trace"]
        assert values_of(stored(target)) == [b"good-0"]
        refused = len(judged.wait_for("records refused", 1))
        worker.restart()
        judged.wait_for("records refused", refused + 1)
        wait_until(lambda: worker.task().get("state") == "FAILED", 120, what="its second end")
    assert b"bad-1" not in values_of(stored(target))
    assert b"good-2" not in values_of(stored(target))


def test_with_tolerance_the_refused_record_is_left_out(judged, topic, stored, tmp_path):
    target = topic()
    with connect(judged.address, tmp_path, target, **{"errors.tolerance": "all"}) as worker:
        wait_until(lambda: ["stored", "good-2"] in worker.lines, 300, what="the last record")
        assert worker.task()["state"] == "RUNNING"
    assert worker.lines == [["stored", "good-0"], ["left out", "bad-1"], ["stored", "good-2"]]
    assert values_of(stored(target)) == [b"good-0", b"good-2"]
