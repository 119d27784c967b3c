"""Which topics lose records, by the file and by their own topic level keys."""

import asyncio
import re
from uuid import UUID

from penstock.engine.topic_configs.index import TopicConfigIndex, TopicConfigRecord, topic_key
from penstock.gateway.produce.producer_state.changes import NAMES_MAX
from penstock.gateway.produce.producer_state.topic_losses import (
    losing_topics,
    losses,
    may_lose_records,
)
from tests.engine.plans import VALIDATED, plan_of

QUARANTINE = {"penstock.mode": "quarantine"}
MARK = {"penstock.mode": "mark"}
FILE = plan_of(VALIDATED)


def test_keys_that_disable_the_quarantine_of_the_file_change_the_losses():
    plan = plan_of({**VALIDATED, **QUARANTINE})
    assert losses("orders", plan, [MARK]) != losses("orders", plan, [])
    assert losses("orders", plan, [MARK]) != losses("orders", plan, [MARK, MARK])


async def test_thousands_of_topics_are_announced_in_slices_as_a_pattern_for_every_topic():
    index = TopicConfigIndex()
    for number in range(NAMES_MAX + 1):
        record = TopicConfigRecord(f"t-{number}", QUARANTINE, "g")
        index.apply(topic_key(UUID(int=number)).encode(), record.encode(), 0)
    assert may_lose_records("t-0", [FILE], index)
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    [pattern] = await losing_topics([FILE], index)
    assert turns
    assert re.search(pattern, "any")
