"""Schemas that a gateway knows stay usable without a registry: in its other workers, in workers
that replace them, after a reload and, with a cache folder, after a restart.

Responses of a registry expire after seconds here instead of minutes, so an hour passes in a few.
"""

import json
import os
import signal
import stat
import time

import pytest

from tests.gateways import wait_until
from tests.integration.registered import (
    JSON_ORDER,
    call,
    order,
    produce_and_error,
    settings,
    text_of,
)
from tests.kafka.records.encoding import encode_batch, values
from tests.policies.schema_policy.fake_registry import FakeRegistry, Fault
from tests.policies.schema_policy.orders import ORDER, framed

PARTITIONS = 8
QUICK = """
from penstock.policies import SchemaPolicy
from penstock.policies.schema_policy.registry import cache

cache.SUBJECTS_SECONDS = cache.LATEST_SECONDS = cache.STALE_SECONDS = 0.2
cache.LATELY_S = 0.4

class Quick(SchemaPolicy):
    pass
"""
LINE = {"type": "fixed", "name": "Line", "namespace": "shop", "size": 2}
WITH_LINE = {"type": "record", "name": "Order", "fields": [{"name": "line", "type": "shop.Line"}]}


@pytest.fixture
def registry():
    with FakeRegistry() as started:
        yield started


@pytest.fixture
def start(gateway, registry, topic):
    """Starts a gateway that knows a record of each of some topics, and gives these records."""

    def begin(**more):
        names = [topic("judged", PARTITIONS) for _ in range(3)]
        properties = settings(registry, policy_workers=3, **more) | {
            "record.validation.policy.class.name": "policies.Quick",
            f"topics.{names[0]}.schema.versions": "latest",
            "schema.registry.timeout.ms": 2000,
        }
        registry.register("line", text_of(LINE))
        good = {
            names[0]: order(registry.register(f"{names[0]}-value", text_of(ORDER))),
            names[1]: framed(
                registry.register(
                    f"{names[1]}-value", text_of(WITH_LINE), references=[("shop.Line", "line", 1)]
                ),
                b"ab",
            ),
            names[2]: framed(
                registry.register(f"{names[2]}-value", json.dumps(JSON_ORDER), "JSON"), b'{"id":1}'
            ),
        }
        running = gateway(properties, QUICK)
        for name, value in good.items():
            assert produce_and_error(running, name, value) == (0, None)
        return running, good

    return begin


def codes(running, good):
    """Send each topic's record to all of its partitions, so to all workers; return the codes."""
    found = set()
    for name, value in good.items():
        batches = {partition: encode_batch(values(value)) for partition in range(PARTITIONS)}
        found |= {answer.error_code for answer in call(running, name, batches).values()}
    return found


def leave(registry, how):
    if how is None:
        registry.goes_away()
    else:
        registry.fault = how


@pytest.mark.slow
@pytest.mark.parametrize("how", [None, Fault.SILENT], ids=["refuses", "hangs"])
def test_known_schemas_survive_a_reload_and_killed_workers(start, registry, how):
    running, good = start()
    leave(registry, how)
    assert codes(running, good) == {0}
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert codes(running, good) == {0}

    running.process.send_signal(signal.SIGHUP)
    running.wait_for("reloaded")
    assert codes(running, good) == {0}

    for _ in range(20):
        before = running.workers()
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda before=before: before[0] not in running.workers())
        assert codes(running, good) == {0}
    for name, value in good.items():
        code, text = produce_and_error(running, name, value[:-1])
        assert (code, "does not fit" in text) == (87, True)
        assert produce_and_error(running, name, framed(99, b"x"))[0] == 7  # which is new


@pytest.mark.slow
@pytest.mark.parametrize("how", [None, Fault.SILENT], ids=["refuses", "hangs"])
def test_known_schemas_survive_a_restart_with_a_cache_folder(start, registry, how):
    running, good = start(schema_registry_cache_dir="cache")
    leave(registry, how)
    time.sleep(1)
    for kill in (False, True):
        running.restart(kill=kill)
        assert codes(running, good) == {0}
        time.sleep(0.5)
        assert codes(running, good) == {0}
    files = list((running.file.parent / "cache").iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}

    for file in files:  # a damaged folder is as good as none
        file.write_bytes(file.read_bytes()[:-1])
    running.restart()
    assert codes(running, good) == {7}
    assert any("is damaged" in event["text"] for event in running.events("policy output"))
    registry.fault = None
    if how is None:
        registry.comes_back()
    wait_until(lambda: codes(running, good) == {0})


@pytest.mark.slow
def test_without_a_folder_a_restart_waits_for_the_registry(start, registry):
    running, good = start()
    registry.goes_away()
    running.restart()
    assert codes(running, good) == {7}


def test_workers_share_their_lookups(gateway, topic, registry):
    """One record, then the registry goes: nothing of forty batches waits."""
    topic("judged")  # which each worker loads at its start
    running = gateway(settings(registry, policy_workers=3))
    running.wait_for("topics loaded", 3)  # each worker looks up the topics that exist until then
    name = topic("judged", 40)
    schema_id = registry.register(f"{name}-value", text_of(ORDER))
    assert produce_and_error(running, name, order(schema_id)) == (0, None)
    registry.goes_away()
    batches = {number: encode_batch(values(order(schema_id, number))) for number in range(40)}
    answers = call(running, name, batches)
    assert {answer.error_code for answer in answers.values()} == {0}
    assert registry.requests.count(f"GET /schemas/ids/{schema_id}") == 1
