"""Signals to a gateway that reads its file: classes of users may take long to import."""

import asyncio
import contextlib
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cli import gateway as command
from penstock.configuration import ConfigurationError
from penstock.gateway.importing import import_in_thread
from tests.gateways import wait_until, write_configuration

HANGS = """
import os, pathlib, time
(pathlib.Path(__file__).parent / "pid.new").write_text(str(os.getpid()))
os.rename(pathlib.Path(__file__).parent / "pid.new", pathlib.Path(__file__).parent / "pid")
time.sleep(600)
"""


@pytest.mark.system
@pytest.mark.parametrize("key", ["record.validation.policy.class.name", "policies.says.type"])
async def test_the_process_that_imports_classes_ends_with_the_gateway(key, tmp_path):
    named = {"policies": "says"} if key.startswith("policies") else {}
    properties = {**named, key: "policies.Says"}
    file = write_configuration(tmp_path, "127.0.0.1:9092", 0, properties, HANGS)
    reading = asyncio.create_task(import_in_thread(partial(command._read, file)))
    pid = tmp_path / "pid"
    await asyncio.to_thread(wait_until, pid.exists)
    process = Path("/proc") / pid.read_text()
    assert process.exists()
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    await asyncio.to_thread(wait_until, lambda: not process.exists())


async def test_a_second_signal_reopens_the_audit_file_at_once(monkeypatch, tmp_path):
    has_begun, go, reopened = threading.Event(), threading.Event(), []

    def load(*_, **__):
        has_begun.set()
        assert go.wait(60)
        raise ConfigurationError("no")

    monkeypatch.setattr(command, "load_configuration", load)
    gateway = SimpleNamespace(
        reopen_audit_file=lambda: reopened.append(go.is_set()), reloaded=lambda **_: None
    )
    systemd = SimpleNamespace(reloading=contextlib.nullcontext)
    one_by_one = asyncio.Lock()

    def reload():
        return asyncio.create_task(command._reload(gateway, tmp_path, systemd, one_by_one))

    first = reload()
    try:
        assert await asyncio.to_thread(has_begun.wait, 60)
        second = reload()
        await asyncio.sleep(0)
        assert reopened == [False, False]
    finally:
        go.set()
    await asyncio.gather(first, second)
    assert len(reopened) == 2
