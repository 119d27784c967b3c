"""Coroutines that run for as long as a gateway runs."""

import asyncio

from penstock.gateway.tasks import Tasks


async def begun():
    tasks = Tasks()
    tasks.loop = asyncio.get_running_loop()
    return tasks


async def test_a_coroutine_runs_to_its_end():
    tasks = await begun()

    async def result():
        return 5

    assert await tasks.run(result()) == 5
    await asyncio.sleep(0)
    assert tasks._running == set()


async def test_at_the_end_all_coroutines_are_cancelled_and_awaited():
    tasks, ended = await begun(), []

    async def endless(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)
            raise RuntimeError("not raised by the end")

    running = [tasks.run(endless(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    await tasks.end()

    assert sorted(ended) == ["a", "b"]
    assert all(task.done() for task in running)


async def test_an_end_without_coroutines_does_nothing():
    await (await begun()).end()
