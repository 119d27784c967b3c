"""The pictures of docs/console.md, of a gateway and an hour that are made up."""

import os
from pathlib import Path

import pytest

from tests.browser.made_up import MadeUp, about

pytestmark = [pytest.mark.browser, pytest.mark.system]
MAX_BYTES = 150_000
ROOT = Path(__file__).parents[2]


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    about(monkeypatch)
    running = MadeUp(tmp_path)
    yield running
    running.close()


@pytest.fixture
def folder(tmp_path):
    wanted = os.environ.get("PENSTOCK_SCREENSHOTS")
    return ROOT / wanted if wanted else tmp_path


PICTURES = {
    "console-light.png": {"width": 1200, "height": 1010, "color_scheme": "light"},
    "console-dark.png": {"width": 1200, "height": 1010, "color_scheme": "dark"},
    "console-phone.png": {"width": 360, "height": 1100, "color_scheme": "light"},
    "console-topics.png": {"width": 1200, "height": 1010, "color_scheme": "light"},
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture(opened, made_up, folder, name):
    page = opened(made_up.address, timezone_id="UTC", reduced_motion="reduce", **PICTURES[name])
    page.locator("#plans tbody tr").first.wait_for()
    page.locator("#charts .line").first.wait_for()
    page.evaluate("document.fonts.ready")
    if name == "console-topics.png":
        page.locator("#shadow").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('shadow').scrollIntoView()")
    file = folder / name
    page.screenshot(path=file, animations="disabled", caret="hide")
    assert 10_000 < file.stat().st_size < MAX_BYTES
