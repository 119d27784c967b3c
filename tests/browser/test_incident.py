"""The steps of an operator in an incident: find, filter, understand, and share."""

import csv
import io
import json
import re
import shlex
import signal

import pytest

from tests.browser.page import fail, is_live, produce, rows
from tests.gateways import run_penstock, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.system]


def facet(page, index, text):
    return page.locator("#facets > div").nth(index).locator("button").filter(has_text=text)


def test_a_long_client_id_and_message_leave_room_for_the_topic(watched, opened, topic):
    running, address = watched()
    name = topic("orders")
    produce(running, name, b"bad " + b"x" * 600, client="c" * 240)
    page = opened(address)
    rows(page).first.wait_for()
    cells = rows(page).first.locator("th, td")
    widths = [cells.nth(i).bounding_box()["width"] for i in range(7)]
    assert widths[2] > 180
    assert all(width > 60 for width in widths)


def test_a_row_has_the_day_of_its_last_refusal(watched, opened, topic):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(address)
    rows(page).first.wait_for()
    seen = rows(page).first.locator("td").first.inner_text()
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+,? (at )?\d\d:\d\d:\d\d", seen), seen
    since = rows(page).first.locator("td").nth(1).inner_text()
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+,? (at )?\d\d:\d\d:\d\d", since), since


@pytest.mark.parametrize(("zone", "text"), [("UTC", "UTC"), ("Asia/Kolkata", "GMT+5:30")])
def test_times_have_their_zone(watched, opened, topic, zone, text):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(address, timezone_id=zone)
    rows(page).first.wait_for()
    head = page.locator("#refusal-rows thead").inner_text()
    assert f"seen ({text})" in head
    assert f"since ({text})" in head
    page.locator("#charts .times").first.get_by_text(text).wait_for()
    rows(page).first.get_by_role("button").click()
    note = page.get_by_role("dialog").locator(".note").first.inner_text()
    assert note.count(text) == 2


@pytest.mark.parametrize("width", [390, 1440])
def test_rows_keep_their_places_while_they_are_read(watched, opened, topic, width):
    running, address = watched()
    frequent, rare = topic("frequent"), topic("rare")
    produce(running, rare, b"bad 1")
    page = opened(address, width=width)
    rows(page).first.wait_for()
    produce(running, frequent, *[b"bad 2"] * 5)
    page.get_by_text("no: bad 2").first.wait_for()
    wait_until(lambda: frequent in rows(page).first.inner_text(), what="the most frequent first")
    produce(running, rare, b"bad 1")
    seen = rows(page).filter(has_text=rare)
    wait_until(lambda: "2" in seen.locator("td").nth(-1).text_content(), what="its second time")
    assert frequent in rows(page).first.inner_text()  # not the row that was seen last
    a_minute = rows(page).first.locator("td.n").first
    wait_until(lambda: a_minute.inner_text() == "5", what="a minute")


def test_facets_filter_each_other(watched, opened, topic):
    running, address = watched()
    first, two = topic("first"), topic("second")
    produce(running, first, b"bad 1", b"bad 2", client="a")
    produce(running, two, b"bad 1", client="b")
    page = opened(address)
    wait_until(lambda: rows(page).count() == 3, what="three reasons")

    facet(page, 0, first[-12:]).click()
    wait_until(lambda: rows(page).count() == 2, what="the rows of a topic")
    assert facet(page, 3, "b").count() == 0  # this client sent nothing to the topic
    assert facet(page, 0, two[-12:]).count() == 1  # another topic can still be chosen
    facet(page, 2, "no: bad 1").click()
    wait_until(lambda: rows(page).count() == 1, what="one reason of a topic")
    assert "no: bad 1" in rows(page).first.inner_text()


def test_long_names_are_truncated_in_the_middle(watched, opened, topic):
    running, address = watched()
    start = "orders." + "x" * 90
    names = [topic(f"{start}.{end}") for end in ("eu", "us")]
    for name in names:
        produce(running, name, b"bad 1")
    page = opened(address, width=900)
    wait_until(lambda: rows(page).count() == 2, what="two topics")
    for name in names:
        button = facet(page, 0, name[-12:])
        box, tail = button.bounding_box(), button.locator(".tail").bounding_box()
        assert tail["width"] > 20
        assert tail["x"] + tail["width"] <= box["x"] + box["width"]
        assert button.locator(".head").evaluate("one => one.scrollWidth > one.clientWidth")
        assert button.inner_text().replace("\n", "").startswith(name)


def test_many_reasons_make_no_endless_page_and_the_chart_comes_first(watched, opened, topic):
    running, address = watched()
    name = topic()
    produce(running, name, *(f"bad {number}".encode() for number in range(45)))
    page = opened(address)
    wait_until(lambda: rows(page).count() == 25, what="the first reasons")
    assert page.evaluate("document.documentElement.scrollHeight") < 4000
    chart = page.locator("#charts figure").nth(1).bounding_box()
    assert chart["y"] + chart["height"] < 900
    assert chart["y"] < page.locator("#refusal-rows").bounding_box()["y"]
    page.get_by_role("button", name="Show 20 more of 20 reasons").click()
    wait_until(lambda: rows(page).count() == 45, what="all reasons")
    page.mouse.wheel(0, 2000)
    wait_until(lambda: page.evaluate("scrollY") > 500, what="the page is scrolled")
    assert page.locator("header").bounding_box()["y"] == 0


def test_a_failed_reload_shows_in_the_state(watched, opened):
    running, address = watched()
    page = opened(address)
    is_live(page)
    state = page.locator("#now > div").first
    wait_until(lambda: "ready" in state.inner_text(), what="the state")
    assert "alarm" not in (state.get_attribute("class") or "")
    running.file.with_name("broken").touch()
    running.process.send_signal(signal.SIGHUP)
    page.locator("#now > div.alarm").get_by_text("the last reload failed").wait_for()
    assert "broken <b>badly</b>" in page.locator("#troubles").inner_text()
    running.file.with_name("broken").unlink()
    running.process.send_signal(signal.SIGHUP)
    page.locator("#reload").get_by_text("worked", exact=True).wait_for()
    wait_until(lambda: page.locator("#now > div.alarm").count() == 0, what="no alarm")


def test_without_javascript_no_state_is_shown(watched, browser):
    _, address = watched()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    text = page.locator("body").inner_text()
    context.close()
    assert "needs JavaScript" in text
    assert "Nothing has been refused" not in text
    assert "None since the start" not in text


def test_before_the_first_data_no_state_is_shown(watched, browser):
    _, address = watched()
    context = browser.new_context()
    page = context.new_page()
    page.route("**/api/*", lambda route: route.abort())
    page.goto(address)
    page.get_by_text("The gateway has sent no data yet.").wait_for()
    text = page.locator("main").inner_text()
    context.close()
    assert "Nothing has been refused" not in text
    assert "No records of observed topics" not in text


def test_error_codes_have_names(watched, opened, topic):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(address)
    page.get_by_text("error 87 INVALID_RECORD").first.wait_for()


def test_selected_filters_are_in_the_address(watched, opened, topic):
    running, address = watched()
    first, two = topic("first"), topic("second")
    produce(running, first, b"bad 1", client="a&b=c")
    produce(running, two, b"bad 1", b"bad 2")
    page = opened(address)
    wait_until(lambda: rows(page).count() == 3, what="three reasons")
    facet(page, 0, first[-12:]).click()
    facet(page, 3, "a&b=c").click()
    page.locator("#filter").fill("no: bad")
    page.locator("#within").select_option("3600")
    wait_until(lambda: "within=3600" in page.url, what="the address")

    again = opened(page.url)
    wait_until(lambda: rows(again).count() == 1, what="the same row")
    assert first in rows(again).first.inner_text()
    assert again.locator("#filter").input_value() == "no: bad"
    assert again.locator("#within").input_value() == "3600"
    assert again.locator("#facets button[aria-pressed=true]").count() == 2
    again.locator("#facets button[aria-pressed=true]").first.click()
    again.locator("#facets button[aria-pressed=true]").first.click()
    again.locator("#filter").fill("")
    again.locator("#within").select_option("")
    wait_until(lambda: rows(again).count() == 3, what="all rows")
    assert again.url == address


def test_times_to_select_are_shown_in_words(watched, opened):
    _, address = watched()
    page = opened(address)
    chosen = page.get_by_label("Seen").locator("option").all_inner_texts()
    assert chosen[0] == "since the start"
    assert all(text.startswith("in the last ") for text in chosen[1:])


def test_a_row_outside_the_selected_time_is_not_shown(watched, opened, topic):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(address)
    rows(page).first.wait_for()
    page.evaluate(
        """() => { const option = document.createElement('option'); option.value = '6';
        document.getElementById('within').append(option); }"""
    )
    page.locator("#within").select_option("6")
    page.get_by_text("No refusal matches.").wait_for()
    assert rows(page).count() == 0


def test_an_invalid_address_does_no_harm(watched, opened, topic):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(f"{address}?topic=<img src=x>&within=-1&other=1")
    page.get_by_text("No refusal matches.").wait_for()
    assert page.locator("main img").count() == 0


def test_refusals_are_saved_as_csv_and_json(watched, opened, topic):
    running, address = watched()
    name = topic()
    produce(running, name, b'bad "1", two\nlines', client="=cmd()")
    produce(running, name, b"bad 2")
    page = opened(address)
    wait_until(lambda: rows(page).count() == 2, what="two reasons")
    page.locator("#filter").fill("cmd")
    wait_until(lambda: rows(page).count() == 1, what="the filter")

    with page.expect_download() as found:
        page.locator("#as-csv").click()
    assert found.value.suggested_filename == "refusals.csv"
    [row] = csv.DictReader(io.StringIO(found.value.path().read_text()))
    assert row["topic"] == name
    assert row["client"] == "'=cmd()"  # no formula
    assert row["message"] == 'no: bad "1", two lines'
    assert re.match(r"20\d\d-\d\d-\d\dT", row["last"])
    with page.expect_download() as found:
        page.locator("#as-json").click()
    [row] = json.loads(found.value.path().read_text())
    assert (row["client"], row["code"], row["count"]) == ("=cmd()", 87, 1)


def test_a_reason_shows_topics_clients_advice_and_commands(watched, opened, topic):
    running, address = watched(audit_file="audit.jsonl")
    first, two = topic("first"), topic("second")
    produce(running, first, b"bad 1", client="a")
    produce(running, two, b"bad 1", b"bad 1", client="b")
    page = opened(address, permissions=["clipboard-read", "clipboard-write"])
    wait_until(lambda: rows(page).count() == 2, what="two topics")
    rows(page).filter(has_text=first).get_by_role("button", name="no: bad 1").click()

    dialog = page.get_by_role("dialog", name="no: bad 1")
    dialog.wait_for()
    text = dialog.inner_text()
    assert "error 87 INVALID_RECORD" in text
    assert "penstock.mode=observe" in text
    for name in (first, two, "a, ", "b, "):
        assert name in text
    quoted = first.replace("'", "'\\''")
    assert f"penstock explain '{running.file}' --topic '{quoted}' --value '...'" in text
    assert "--since" not in text  # refused records are not stored
    dialog.get_by_role("button", name="Copy the command to list refusals").click()
    dialog.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(
        rf"penstock audit '{re.escape(str(running.file))}' --trail "
        r"--from 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ --report trail",
        copied,
    )
    listed = run_penstock(*shlex.split(copied)[1:-2], "--report", running.file.parent / "trail")
    assert listed.returncode == 0, listed.stderr
    assert "no: bad 1" in listed.stdout
    dialog.get_by_role("button", name="Close").click()
    wait_until(lambda: not dialog.is_visible(), what="the dialog is closed")
    assert page.evaluate("document.activeElement.className") == "reason"


@pytest.mark.parametrize("width", [390, 1440])
def test_a_broken_policy_is_shown_apart_from_refusals(watched, opened, topic, width):
    running, address = watched()
    name = topic()
    page = opened(address, width=width)
    is_live(page)
    assert page.get_by_text("Failed: the policy is broken").count() == 0
    produce(running, name, b"bad 1", b"bad 1", b"bad 2")
    fail(running, name, b"bug")
    tile = page.locator("#now > div").first
    tile.get_by_text("Failed: the policy is broken").wait_for()
    assert "alarm" in tile.get_attribute("class")
    file = f"{running.file.with_name('policies.py')}:"
    assert re.search(rf"1 in 5 min\s+{re.escape(file)}\d+ in validate_record", tile.inner_text())
    state = page.locator("#now > div").nth(1)
    wait_until(lambda: "a policy is broken" in state.inner_text(), what="the state")
    refused = page.locator("#now > div").filter(has_text="Refused records/s")
    wait_until(lambda: "3 since the start" in refused.inner_text(), what="refusals alone")

    row = rows(page).filter(has_text="KeyError")
    row.wait_for()
    assert f"at {file}" in row.inner_text()
    assert "a secret" not in page.locator("body").inner_text()
    row.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Where it failed").wait_for()
    text = dialog.inner_text()
    assert f"topics.{name}.penstock.mode=observe" in text
    assert "systemctl reload penstock" in text


@pytest.mark.parametrize("named", [True, False])
def test_the_line_that_has_a_policy_observe(watched, opened, topic, named):
    keys = {"policies": "check", "policies.check.type": "policies.Check",
            "penstock.policies": "check", "record.validator.classes": ""}  # fmt: skip
    running, address = watched(**(keys if named else {}))
    name = topic()
    fail(running, name, b"bug")
    page = opened(address)
    rows(page, "#plans").filter(has_text=name).wait_for()
    rows(page).first.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("What to do").wait_for()
    line = "policies.check.mode=observe" if named else f"topics.{name}.penstock.mode=observe"
    dialog.get_by_text(line, exact=True).wait_for()


def test_a_reason_of_records_in_quarantine_shows_how_to_return_them(watched, opened, topic):
    running, address = watched(
        penstock_mode="quarantine", errors_deadletterqueue_topic_replication_factor=1
    )
    name = topic()
    produce(running, name, b"good", b"bad 1")
    page = opened(address, permissions=["clipboard-read", "clipboard-write"])
    rows(page).first.wait_for()
    assert "quarantined, policies.Check" in rows(page).first.inner_text()
    assert f"stored in {name}.dead; back: penstock redrive '{running.file}' --from" in (
        rows(page).first.inner_text()
    )
    rows(page).first.get_by_role("button", name="no: bad 1").click()
    dialog = page.get_by_role("dialog", name="no: bad 1")
    dialog.wait_for()
    assert f"stored in the dead letter topic {name}.dead" in dialog.inner_text()
    dialog.get_by_role("button", name="Copy the command to return the dead letters").click()
    dialog.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"penstock redrive '{running.file}' --from '{name}.dead' --to '{name}'"
    )
    shown = dialog.inner_text()
    assert f"--to '{name}' --dry-run" in shown
    assert f"penstock explain '{running.file}' --topic '{name}' --value '...'" in shown
    assert "--report report" not in shown


def test_a_reason_of_observed_records_shows_how_to_check_them(watched, opened, topic):
    running, address = watched(penstock_mode="observe")
    name = topic()
    produce(running, name, b"good", b"bad 1")
    page = opened(address)
    rows(page, "#shadow-rows").first.get_by_role("button", name="no: bad 1").click()
    dialog = page.get_by_role("dialog", name="no: bad 1")
    dialog.wait_for()
    shown = dialog.inner_text()
    assert f"penstock check '{running.file}' --since 1h --topic '{name}'" in shown
    assert f"penstock audit '{running.file}' --topic '{name}' --report report" in shown
    assert "--trail" not in shown


def test_without_an_audit_trail_the_dialog_says_how_to_get_it(watched, opened, topic):
    running, address = watched()
    produce(running, topic(), b"bad 1")
    page = opened(address)
    rows(page).first.get_by_role("button").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("set audit.topic or audit.file").wait_for()
    assert "--trail" not in dialog.inner_text()


def test_a_reason_has_a_history_from_the_second_point_on(watched, opened, topic):
    running, address = watched()
    name = topic()
    produce(running, name, b"bad 1")
    page = opened(address)
    rows(page).first.wait_for()
    points = page.locator("#charts svg[role=img]").first
    points.wait_for()

    def has_history():
        rows(page).first.get_by_role("button").click()
        found = page.locator("dialog figure").count()
        page.keyboard.press("Escape")
        return found == 1

    wait_until(has_history, what="two points")


@pytest.mark.parametrize("width", [320, 390, 1080])
def test_no_section_needs_sideways_scrolling(watched, opened, topic, width):
    running, address = watched(**{"topics.seen-*.penstock.mode": "observe"})
    produce(running, topic("refused"), b"bad " + b"x" * 300, client="c" * 200)
    produce(running, topic("seen-" + "y" * 100), b"bad 1", b"good")
    page = opened(address, width=width)
    rows(page).first.wait_for()
    rows(page, "#shadow-topics").first.wait_for()
    rows(page, "#brokers").first.wait_for()
    wide = """[...document.querySelectorAll('.scroll, body')].filter((one) => one.checkVisibility() &&
        one.scrollWidth > one.clientWidth + 1).map((one) => one.getAttribute('aria-label') ?? 'body')"""
    assert page.evaluate(wide) == []
    caption = page.locator("#shadow-topics caption").bounding_box()
    assert caption["width"] > min(width, 400) * 0.7  # not a word in each line
    rows(page).first.get_by_role("button").click()
    page.get_by_role("dialog").wait_for()
    assert page.evaluate(wide) == []
    assert page.get_by_role("dialog").evaluate("one => one.scrollWidth <= one.clientWidth + 1")
