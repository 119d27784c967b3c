"""Prometheus' text format, parsed by Prometheus' own library."""

import asyncio

import pytest

from penstock.gateway.observing.metrics import exposition
from penstock.gateway.observing.metrics.cells import MetricCounter
from penstock.gateway.observing.metrics.exposition import Gauge, render
from tests.metrics import Metrics


@pytest.mark.parametrize("value", ['"', "\\", "\n", '\\n"', "ä€𝄞", " a,b=} ", ""])
async def test_any_label_value_can_be_parsed_again(value):
    text = (await render([Gauge("x", "X.", ("a", "b"), {(value, "1"): 7})])).decode()

    assert Metrics(text).of("x") == {(value, "1"): 7}


@pytest.mark.parametrize("value", [0, 1, 2**63, 0.1, 1e-9, 1e21, float("inf"), -1.5])
async def test_any_number_can_be_parsed_again(value):
    text = (await render([Gauge("x", "X.", (), {(): value})])).decode()

    assert Metrics(text)("x") == value


async def test_each_metric_has_its_type_and_meaning():
    families = [MetricCounter("x_total", "Of x."), Gauge("y", "Of y.", (), {(): 1})]

    assert (await render(families)).decode() == (
        "# HELP x_total Of x.\n# TYPE x_total counter\nx_total 0\n"
        "# HELP y Of y.\n# TYPE y gauge\ny 1\n"
    )


async def test_other_work_continues_while_many_series_are_written(monkeypatch):
    """The event loop runs after each slice, and counting meanwhile is safe."""
    clock = iter(range(10**9))
    monkeypatch.setattr(exposition.time, "perf_counter", lambda: next(clock) * exposition.SLICE_S)
    counter = MetricCounter("x_total", "Of x.", ("topic",), series_max=2000)
    for number in range(1000):
        counter.add((str(number),))
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            counter.add((f"new {turns}",))
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    text = (await render([counter])).decode()
    task.cancel()

    assert len(Metrics(text).of("x_total")) == 1000
    assert turns > 300
