"""A reload: its result, what is logged, and what the gateway learns."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from penstock.cli.process.reloading import NOT_RELOADED, Reload, reload
from penstock.configuration import ConfigurationError
from penstock.kafka.cluster.brokers import UnreachableError

FILE = SimpleNamespace(path="penstock.properties", warnings=("a is unknown",))


class FakeGateway:
    def __init__(self, error=None):
        self.error, self.results = error, []

    async def reload(self, configuration):
        assert configuration is FILE
        if self.error is not None:
            raise self.error

    def reloaded(self, **result):
        self.results.append(result)

    def kept_until_restart(self, configuration):
        return ("listeners",)


async def test_a_reload():
    gateway = FakeGateway()
    with capture_logs() as logs:
        assert await reload(gateway, lambda _: FILE) == Reload(FILE)
    assert gateway.results == [{"worked": True}]
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "configuration"),
        ("warning", "these keys have changed and take effect at a restart"),
        ("info", "reloaded"),
    ]


@pytest.mark.parametrize("error", [ConfigurationError("no"), UnreachableError("no")])
@pytest.mark.parametrize("while_reading", [False, True])
async def test_the_old_policies_stay(error, while_reading):
    def read(_):
        if while_reading:
            raise error
        return FILE

    gateway = FakeGateway(error)
    with capture_logs() as logs:
        assert await reload(gateway, read) == Reload(None, "no")
    assert gateway.results == [{"worked": False, "why_not": "no"}]
    assert logs == [{"log_level": "error", "event": NOT_RELOADED, "reason": "no"}]


async def test_an_error_of_the_gateway_has_its_traceback_in_the_log():
    gateway = FakeGateway(KeyError("a defect"))
    with capture_logs() as logs:
        result = await reload(gateway, lambda _: FILE)
    assert result == Reload(None, "an error of the gateway, which is in its log")
    assert gateway.results == [{"worked": False, "why_not": result.reason}]
    assert [(line["event"], line["exc_info"]) for line in logs] == [(NOT_RELOADED, True)]
