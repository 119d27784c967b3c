"""The screenshots of docs/monitoring.md, of a simulated gateway with an hour of history."""

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.system]
MAX_BYTES = 150_000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")
    return ROOT / wanted if wanted else tmp_path


PICTURES = {
    "console-light.png": {"width": 1000, "height": 800, "color_scheme": "light"},
    "console-dark.png": {"width": 1000, "height": 800, "color_scheme": "dark"},
    "console-phone.png": {"width": 360, "height": 1100, "color_scheme": "light"},
    "console-hour.png": {"width": 1080, "height": 520, "color_scheme": "light"},
    "console-topics.png": {"width": 1080, "height": 820, "color_scheme": "light"},
}
SECTIONS = {"console-hour.png": "hour", "console-topics.png": "shadow"}
"""The element at the top of a screenshot; by default the top of the page."""


@pytest.mark.parametrize("name", PICTURES)
def test_a_screenshot_is_taken(made_up, opened, folder, name):
    page = opened(made_up.address, timezone_id="UTC", reduced_motion="reduce", **PICTURES[name])
    page.locator("#plans tbody tr").first.wait_for()
    page.locator("#charts .plot svg[aria-label]").nth(3).wait_for()
    page.evaluate("document.fonts.ready")
    if name in SECTIONS:
        page.evaluate(f"document.getElementById('{SECTIONS[name]}').scrollIntoView()")
    file = folder / name
    page.screenshot(path=file, animations="disabled", caret="hide")
    assert 10_000 < file.stat().st_size < MAX_BYTES
