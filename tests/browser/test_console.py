"""The console of a real gateway, in a real browser."""

import re
import signal

import pytest

from penstock.kafka.local import free_ports
from tests.browser.page import is_live, produce, rows
from tests.gateways import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.system]
MARKUP = "<img src=x onerror=window.evil=1><script>window.evil=1</script>\u202e&amp;"


def test_a_refusal_is_shown_at_once(watched, opened, topic):
    running, address = watched()
    name = topic()
    page = opened(address)
    page.get_by_text("Nothing has been refused since the gateway started.").wait_for()
    is_live(page)

    produce(running, name, b"good", b"bad 1")
    rows(page).first.wait_for()
    text = rows(page).first.inner_text()
    assert name in text
    assert "no: bad 1" in text
    assert "policies.Check, error 87" in text
    assert "app" in text

    produce(running, name, b"bad 1", b"bad 1", b"bad 2", client="other")
    page.get_by_text("no: bad 2").first.wait_for()
    times = rows(page).filter(has_text="other").filter(has_text="no: bad 1").locator("td").nth(5)
    wait_until(lambda: times.locator("span").inner_text() == "2", what="two times")
    assert rows(page).count() == 3


def test_texts_of_clients_are_shown_as_text(watched, opened, topic):
    running, address = watched()
    page = opened(address, expected="TrustedHTML")
    is_live(page)
    produce(running, topic(), f"bad {MARKUP}".encode(), client=MARKUP)
    rows(page).first.wait_for()

    assert "<script>window.evil=1</script>\ufffd&amp;" in rows(page).first.inner_text()
    page.locator("#facets button").first.wait_for()
    assert page.locator("#facets").get_by_text("<img").count() == 2
    assert page.evaluate("window.evil") is None
    assert page.locator("main img, main script").count() == 0
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<p>'")


def test_the_console_can_be_used_with_the_keyboard_alone(watched, opened, topic):
    running, address = watched()
    name, other = topic("first"), topic("second")
    produce(running, name, b"bad 1", b"bad 2")
    produce(running, other, b"bad 1", client="second-client")
    page = opened(address)
    page.get_by_text("no: bad 2").first.wait_for()
    focused = "document.activeElement"

    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.textContent") == "Skip to refusals"
    assert page.evaluate(f"{focused}.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focused}.id") == "refusals"

    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.id") == "filter"
    page.keyboard.type("second")
    wait_until(lambda: rows(page).count() == 1, what="the filter")
    page.keyboard.press("Escape")
    wait_until(lambda: rows(page).count() == 3, what="no filter")

    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.id") == "within"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    produce(running, name, b"bad 3")
    wait_until(lambda: "4 since" in page.locator("#now").inner_text(), what="four refusals")
    assert rows(page).count() == 3
    page.keyboard.press("Space")
    page.get_by_text("no: bad 3").first.wait_for()

    for name in ("as-csv", "as-json"):
        page.keyboard.press("Tab")
        assert page.evaluate(f"{focused}.id") == name
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.closest('.facets') !== null")
    assert outline(page) != "none"
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focused}.getAttribute('aria-pressed')") == "true"
    assert rows(page).count() == 3  # the first topic has most
    page.keyboard.press("Enter")
    assert rows(page).count() == 4

    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                f"{focused}.id || {focused}.getAttribute('aria-label') || {focused}.localName"
            )
        )
        assert page.evaluate(f"{focused} === document.body") or outline(page) != "none"
        if page.evaluate(f"{focused} === document.body"):
            break
    assert {
        "Refusals by reason",
        "topic-filter",
        "Plans of topics",
        "Brokers",
        "summary",
    } <= seen


def outline(page):
    return page.evaluate("getComputedStyle(document.activeElement).outlineStyle")


def test_the_page_has_landmarks_and_accessible_names(watched, opened):
    _, address = watched()
    page = opened(address)
    is_live(page)
    page.locator("#charts svg[aria-label]").nth(3).wait_for()
    assert page.locator("main").count() == page.locator("h1").count() == 1
    assert page.get_by_role("navigation", name="Sections").count() == 1
    for name in (
        "Now",
        "Refusals",
        "Last hour",
        "Shadow mode",
        "Topics and their policies",
        "Gateway",
    ):
        assert page.get_by_role("region", name=name, exact=True).count() == 1
    assert page.locator("[aria-live], [role=status], [role=alert]").count() == 1
    unnamed = """[...document.querySelectorAll('input, button, svg[role=img], table')].filter((one) =>
        !(one.labels?.length || one.textContent.trim() || one.getAttribute('aria-label') || one.caption))"""
    assert page.evaluate(f"{unnamed}.length") == 0
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(watched, opened, topic, scheme):
    running, address = watched(penstock_mode="observe")
    produce(running, topic(), b"bad 1", b"good")
    page = opened(address, color_scheme=scheme)
    rows(page, "#shadow-rows").first.wait_for()
    page.locator("#plans .from").first.wait_for()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background)[:3])) > 384) == (scheme == "light")
    assert page.evaluate(CONTRAST) == []


CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((all, c, i) => all + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [luminance(numbers(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.outerHTML.slice(0, 80)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_no_element_is_wider_than_the_screen(watched, opened, topic, width):
    running, address = watched()
    name = topic("t" * 200)
    produce(running, name, b"bad " + b"x" * 500, client="c" * 200)
    page = opened(address, width=width)
    rows(page).first.wait_for()
    page.locator("#plans tbody tr").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 320:
        assert rows(page).first.bounding_box()["width"] <= 320
        assert name[:20] in rows(page).first.inner_text()


def test_plans_have_the_origin_of_settings(watched, opened, topic):
    name = topic("pii")
    _, address = watched(**{"topics.pii-*.penstock.mode": "observe"})
    page = opened(address)
    row = rows(page, "#plans").filter(has_text=name)
    row.wait_for()
    text = row.inner_text()
    assert "observed" in text
    assert "policies.Check" in text
    assert re.search(r"pattern\s*penstock.mode=observe\s*pii-\*", text)
    page.locator("#topic-filter").fill("no such topic")
    wait_until(lambda: rows(page, "#plans").count() == 0, what="no topic")


def test_observed_and_real_refusals_are_shown_side_by_side(watched, opened, topic):
    running, address = watched(penstock_mode="observe")
    name = topic()
    page = opened(address)
    is_live(page)
    page.get_by_text("No records of observed topics have been judged").wait_for()
    produce(running, name, b"good", b"good", b"good", b"bad 1")
    rows(page, "#shadow-topics").filter(has_text="25.0 %").wait_for()
    assert "no: bad 1" in rows(page, "#shadow-rows").first.inner_text()
    assert rows(page).count() == 0
    boxes = [
        page.locator(selector).bounding_box() for selector in ("#shadow-topics", "#shadow-rows")
    ]
    assert boxes[0]["y"] == boxes[1]["y"]


def test_a_reload_is_shown(watched, opened):
    running, address = watched()
    page = opened(address)
    is_live(page)
    page.get_by_text("None since the start.").wait_for()
    running.process.send_signal(signal.SIGHUP)
    page.locator("#reload").get_by_text("worked", exact=True).wait_for()
    running.file.with_name("broken").touch()
    running.process.send_signal(signal.SIGHUP)
    page.locator("#reload").get_by_text("broken <b>badly</b>").wait_for()
    assert "old policies stay in force" in page.locator("#reload").inner_text()


def test_the_page_outlives_its_gateway(watched, opened, topic):
    running, address = watched()
    page = opened(address, expected="Failed to load resource")
    is_live(page)
    running.stop()
    page.locator("#connection[data-is=lost]").wait_for()
    running.restart()
    is_live(page)
    produce(running, topic(), b"bad 1")
    rows(page).first.wait_for()


@pytest.mark.parametrize("width", [390, 1440])
def test_two_gateways_are_one_page(watched, opened, topic, width):
    port = free_ports(1)[0]
    second, own = watched(**{"console.peers": f"127.0.0.1:{port}"})
    peer = own.removeprefix("http://").rstrip("/")
    first, address = watched(**{"console.peers": peer, "metrics.listener": f"127.0.0.1:{port}"})
    address = f"http://127.0.0.1:{port}/"
    name = topic()
    page = opened(address, width=width)
    is_live(page)
    page.locator("#now > div").first.get_by_text("2 of 2 ready").wait_for()
    produce(first, name, b"bad 1")
    produce(second, name, b"bad 1", b"bad 1")
    seen = rows(page).first
    seen.wait_for()
    wait_until(lambda: "3" in seen.locator("td").nth(-1).text_content(), what="those of both")
    assert rows(page).count() == 1
    gateways = rows(page, "#gateways")
    assert gateways.count() == 2
    assert peer in gateways.nth(1).inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    second.stop()
    gateways.nth(1).get_by_text("does not answer since").wait_for()
    page.locator("#now > div.alarm").get_by_text("1 of 2 ready").wait_for()
    assert f"{peer} does not answer" in page.locator("#troubles").inner_text()
    assert "3" in seen.locator("td").nth(-1).text_content()  # counts of a silent peer remain


def test_a_user_can_log_in_and_out(watched, opened):
    _, address = watched(**{"metrics.listener.token": "a-token"})
    page = opened(address, expected="Failed to load resource")
    page.keyboard.type("wrong\n")  # the field has the focus
    page.get_by_text("This is not the token.").wait_for()
    page.get_by_label("Token").fill("a-token")
    page.keyboard.press("Enter")
    is_live(page)
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert "a-token" not in cookie["value"]
    page.reload()
    is_live(page)

    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()
    page.goto(address)
    page.get_by_label("Token").wait_for()


def test_a_session_that_ends_leads_to_the_login(watched, opened):
    running, address = watched(**{"metrics.listener.token": "a-token"})
    page = opened(address, expected="Failed to load resource")
    page.get_by_label("Token").fill("a-token")
    page.keyboard.press("Enter")
    is_live(page)
    running.restart()
    page.get_by_label("Token").wait_for()
