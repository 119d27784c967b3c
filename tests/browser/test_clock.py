"""The page of a gateway whose clock is set back by an hour."""

import json

import pytest

from penstock.engine.verdict import RecordError, refused_records
from penstock.gateway.refusal_log import Refused
from tests.browser.made_up import START

pytestmark = [pytest.mark.browser, pytest.mark.system]


def test_new_refusals_are_shown_after_the_clock_was_set_back(made_up, opened):
    page = opened(made_up.address)
    rows = page.locator("#refusal-rows tbody tr")
    rows.nth(3).wait_for()
    console = made_up.console
    console._refusals._now = lambda: START
    made_up.soon(made_up.put, refused("it was set back"))
    page.locator("#refusal-rows").get_by_text("it was set back").first.wait_for()
    assert rows.filter(has_text="it was set back").count() == 1

    last = json.loads(console._history.as_text())["points"][-1]
    point = {**last, "at": START, "records": {"accepted": 98_765.0}}
    for _ in range(2):  # an event that is sent again is the same
        made_up.soon(console._subscribers.publish, "point", point)
    page.locator("#charts").get_by_text("accepted 98,765", exact=True).first.wait_for()


def refused(message):
    return Refused("orders", 0, "app", refused_records([RecordError(0, message, "a.V")]))
