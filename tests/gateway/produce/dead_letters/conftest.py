"""A writer of dead letters, and the log that it writes to."""

import asyncio
from pathlib import Path

import pytest

from penstock.gateway.produce.dead_letters import partition_letters, requests
from penstock.gateway.produce.dead_letters.writer import DeadLetterWriter
from tests.gateway.produce.dead_letters.letter_log import LetterLog
from tests.gateway.produce.dead_letters.names import any_names


@pytest.fixture
def writer(monkeypatch):
    """Returns a writer, and the log that it writes to."""
    monkeypatch.setattr(requests, "read_response", lambda answers: answers)
    monkeypatch.setattr(partition_letters, "_PAUSE_S", 0.001)
    monkeypatch.setattr(partition_letters, "_PAUSE_MAX_S", 0.001)

    def make(*faults):
        made = DeadLetterWriter({}, Path("f"), asyncio.ensure_future, any_names())
        made._connection = LetterLog(*faults)
        return made, made._connection

    return make
