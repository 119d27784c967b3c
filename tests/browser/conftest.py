"""A browser, and pages in it that must not report errors."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka.local import free_ports
from tests.browser.made_up import MadeUp, about

POLICIES = """
from pathlib import Path
from penstock.policy import *

if Path(__file__).with_name("broken").exists():
    raise ValueError("broken <b>badly</b>")

class Check(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"bad"):
            return InvalidRecordException(f"no: {value.decode()}")
        if value == b"bug":
            raise KeyError("a secret")
        return None
"""
CHECK = {"record.validator.classes": "policies.Check"}
CHROMIUM = os.environ.get("PENSTOCK_CHROMIUM") or "/usr/bin/chromium"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; it ends with the session."""
    from playwright.sync_api import sync_playwright

    assert Path(CHROMIUM).exists(), "install chromium, or set PENSTOCK_CHROMIUM"
    with sync_playwright() as playwright:
        # As root, as in a container, its own sandbox cannot be used.
        sandbox = [] if os.getuid() else ["--no-sandbox"]
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield running
        running.close()


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    """A simulated gateway with an hour of history, and its console."""
    about(monkeypatch)
    running = MadeUp(tmp_path)
    yield running
    running.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages; errors of pages fail the test, except for expected errors."""
    contexts, complaints = [], []

    def open_page(address: str, *, width: int = 1280, height: int = 900, expected: str = "",
                  **options: Any) -> Any:  # fmt: skip
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)

        def complain(text: str) -> None:
            if not expected or expected not in text:
                complaints.append(text)

        page.on("pageerror", lambda error: complain(str(error)))
        page.on(
            "console", lambda message: complain(message.text) if message.type == "error" else None
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def watched(gateway: Any) -> Callable[..., Any]:
    """Starts gateways with a console; returns each with its address."""

    def start(**properties: Any) -> Any:
        port = free_ports(1)[0]
        named = {key.replace("_", "."): value for key, value in properties.items()}
        listener = {"metrics.listener": f"127.0.0.1:{port}"}
        return gateway({**CHECK, **listener, **named}, POLICIES), f"http://127.0.0.1:{port}/"

    return start
