"""`report.html`: complete, small, safe and readable, for any audit."""

import re
from pathlib import Path

import pytest

from penstock.engine.path_counts import PathCount
from penstock.jobs.report.baseline import compare
from penstock.jobs.report.counts import Sample
from penstock.jobs.report.document import About, ColumnEntry, RuleEntry
from penstock.jobs.report.page import as_html, breakable
from penstock.jobs.report.summary import summarize
from tests.jobs.report.audit_runs import runs
from tests.jobs.report.pages import Page
from tests.jobs.report.samples import HOUR, contract_of, counted, records, report_of

MB = 1_000_000


def history(hours, partitions=3, every=1):
    """Return counts of a history, a record in fifty refused, for 40 reasons."""
    return counted(
        *(
            report
            for n in range(0, hours, every)
            for report in (
                records(count=49 * every, hour=HOUR - n, partition=n % partitions, first=n),
                records(hour=HOUR - n, partition=n % partitions, first=n, message=f"why {n % 40}"),
            )
        )
    )


def page_of(counts, **about):
    report = summarize(counts, About(source="orders", file="f", fingerprint="x", **about))
    html = as_html(report)
    return html, Page(html)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("hours", "partitions", "every"),
    [(72, 3, 1), (24 * 365, 12, 7), (24 * 365 * 3, 40, 7), (2000, 1000, 1)],
    ids=["3 days", "a year", "three years", "1,000 partitions"],
)
def test_the_page_is_small_and_its_chart_has_few_bars(hours, partitions, every):
    html, page = page_of(history(hours, partitions, every))
    assert len(html.encode()) < MB / 2
    assert 0 < page.tags.count("title") - 1 <= 120
    assert "1,000 partitions" in html or partitions < 1000
    assert page.tags.count("details") == (3 if partitions > 10 else 2)


@pytest.mark.thorough
def test_the_worst_is_small_too():
    counts = history(500, 5000)
    for n in range(3000):
        counts.add(records("<&>" * 50, message="<&>" * 340 + str(n), policy="&" * 200, first=n))
    for samples in counts.samples.values():
        samples[:] = [Sample(0, sample.offset, b"\xff" * 256, b"<\xfe" * 128) for sample in samples]
    html, _ = page_of(counts)
    assert len(html.encode()) < MB


@pytest.mark.thorough
def test_nothing_from_outside_and_nothing_runs():
    html, page = page_of(history(72))
    assert "://" not in html
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not re.search(r"url\(|@import|javascript:", html)
    assert not [a for _, attributes in page.attributes for a in attributes if a.startswith("on")]
    assert not [
        attributes for _, attributes in page.attributes if {"src", "href"} & set(attributes)
    ]


@pytest.mark.thorough
def test_texts_of_policies_and_producers_are_escaped():
    evil = "<script>alert(1)</script>\"'&"
    counts = counted(records(evil, message=evil, policy=evil))
    counts.header_keys.add(evil)
    report = summarize(counts, About(source=evil, file=evil, fingerprint=evil, keys=(evil,)))
    before = report_of(records(evil), source=evil)
    html = as_html(report.model_copy(update={"baseline": compare(report, before, Path(evil))}))
    assert "script" not in Page(html).tags
    assert Page(html).text.count("alert(1)") > 5


@pytest.mark.thorough
def test_tables_and_headings_can_be_read_aloud():
    _, page = page_of(history(400, 30))
    headings = [tag for tag in page.tags if tag in {"h1", "h2", "h3"}]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1
    tables = page.tags.count("table")
    assert tables == page.tags.count("caption") == page.tags.count("thead") > 5
    heads = [attributes for tag, attributes in page.attributes if tag == "th"]
    assert {attributes.get("scope") for attributes in heads} == {"col", "row"}
    pictures = [a for tag, a in page.attributes if tag == "svg"]
    assert all(a.get("aria-label") or a.get("aria-hidden") or "viewbox" in a for a in pictures)
    assert [a["aria-label"] for a in pictures if a.get("role") == "img"]
    assert dict(page.attributes)["html"]["lang"] == "en"
    assert [a for tag, a in page.attributes if tag == "meta" and a.get("name") == "viewport"]


def _luminance(color):
    channels = (int(color[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(color, other):
    light, dark = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_can_be_distinguished(scheme):
    html, _ = page_of(history(3))
    found = re.findall(r"--(\w+): (#[0-9a-f]{3,6});", html)
    half = len(found) // 2
    assert [name for name, _ in found[:half]] == [name for name, _ in found[half:]]
    colors = {
        name: color if len(color) == 7 else "#" + "".join(c * 2 for c in color[1:])
        for name, color in found[scheme * half : (scheme + 1) * half]
    }
    for text in ("text", "muted", "accent", "bad", "good"):
        for background in ("page", "soft"):
            assert contrast(colors[text], colors[background]) >= 4.5, (text, background)
    for mark in ("accepted", "dropped", "refused", "failed", "line"):
        assert contrast(colors[mark], colors["page"]) >= 3, mark
    assert contrast(colors["refused"], colors["accepted"]) >= 1.5


@pytest.mark.thorough
def test_the_schemes_are_the_readers():
    html, _ = page_of(history(3))
    assert "@media (prefers-color-scheme: dark)" in html
    assert "color-scheme: light dark" in html


@pytest.mark.thorough
def test_shares_that_are_drawn_are_in_a_table_too():
    html, page = page_of(counted(records(count=9), records(message="bad")))
    assert "9 accepted, 1 refused; 10 % turned away" in html
    assert page.text.count("10 %") > 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fail_over", "message"), [(None, None), (0.05, "More than the limit of 5 %"), (0.5, "Within")]
)
def test_the_limit_is_shown(fail_over, message):
    _, page = page_of(counted(records(count=9), records(message="bad")), fail_over=fail_over)
    assert message is None or message in page.text
    assert ("--fail-over" in page.text) == (message is not None)


@pytest.mark.thorough
def test_regressions_are_shown():
    before = report_of(records(count=10), source="orders")
    report = report_of(records(count=9), records(message="new reason"), source="orders")
    compared = compare(report, before, Path("last/report.json"))
    page = Page(as_html(report.model_copy(update={"baseline": compared})))
    assert "Worse than the audit of" in page.text
    assert page.text.index("Since last time") < page.text.index("By the time")
    better = compare(before, report, Path("last/report.json"))
    page = Page(as_html(before.model_copy(update={"baseline": better})))
    assert "No worse than the audit of" in page.text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kept", "message"),
    [(None, None), (runs(0.1), "the first run that is kept"), (runs(0.1, 0.2), "The runs as a")],
)
def test_the_trend_is_drawn(kept, message):
    page = Page(as_html(report_of(records()), kept))
    assert ("From run to run" in page.text) == (message is not None)
    assert message is None or message in page.text


def test_times_that_are_not_drawn_are_mentioned():
    _, page = page_of(
        counted(
            records(count=5),
            records(count=3, hour=10**10, message="bad"),
            records(count=2, hour=None),
        )
    )
    assert "3 records have times out of range, before 1970 or after 9999" in page.text
    assert "2 records have times that are not set; 0 of them" in page.text


@pytest.mark.thorough
def test_contents_of_samples_are_shown_if_they_exist():
    counts = counted(records(message="bad"))
    assert "value" not in page_of(counts)[1].text.lower()
    [samples] = counts.samples.values()
    samples[0] = Sample(0, 7, b"k", b"v" * 300)
    _, page = page_of(counts)
    assert f"0:7 key k value {'v' * 119}…" in page.text


def test_an_empty_audit_has_a_page():
    _, page = page_of(counted())
    assert "There were no records to judge." in page.text


@pytest.mark.thorough
def test_several_topics_are_distinguished():
    _, page = page_of(counted(records("a", count=9), records("b", message="bad", policy="p.P")))
    assert "Topics" in page.text
    assert "topic b" in page.text


def test_long_names_are_broken_after_separators():
    assert breakable("com.example.my-topic_v1") == "com.<wbr>example.<wbr>my-<wbr>topic_<wbr>v1"
    assert breakable("<b>") == "&lt;b&gt;"
    assert breakable("...") == "..."


@pytest.mark.thorough
def test_reasons_and_partitions_are_folded():
    html, page = page_of(history(2000, 300))
    assert "30 more reasons" in page.text
    assert "290 more partitions" in page.text
    assert html.index("more partitions") > html.index("</details>")


def test_paths_that_lead_to_no_field_are_shown():
    paths = [PathCount("mask", f"<{n}>.number", 1000, n) for n in range(2)]
    text = Page(as_html(report_of(records(), paths=paths))).text
    assert "mask: <0>.number is in none of 1,000 JSON values" in text
    assert "<1>" not in text


def test_rules_of_contracts_are_shown():
    rules = (
        {"held": True, "measured": 33.3333},
        {"held": False, "name": "<b>bad</b>"},
        {"held": False, "is_error": False, "severity": "warning", "measured": None},
        {"held": None, "measured": None, "limit": None, "why": "a rule of type sql is not judged"},
    )
    report = report_of(records()).model_copy(update={"contracts": (contract_of(*rules),)})
    html = as_html(report)
    page = Page(html)
    assert "Contract of t" in html
    assert page.tags.count("table") == page.tags.count("caption") == page.tags.count("thead")
    cells = [
        re.sub("<.*?>", " ", row).split()
        for row in re.findall("<tr>(.*?)</tr>", html.replace("<wbr>", ""), re.DOTALL)
    ]
    rows = [" ".join(cell) for cell in cells if cell[:1] == ["o.a:"]]
    assert rows == [
        "o.a: rule 0 33.333 must be 5 yes",
        "o.a: &lt;b&gt;bad&lt;/b&gt; 1,000 must be 5 no",
        "o.a: rule 2 nothing must be 5 no (warning)",
        "o.a: rule 3 a rule of type sql is not judged not judged",
    ]


def test_rows_have_tables_of_rules_and_columns():
    rules = [
        RuleEntry(policy="rules", rule=f"rule_{n}", mode="enforce", count=1, share=0.1,
                  samples=("<id>", None))
        for n in range(2000)
    ]  # fmt: skip
    soft = RuleEntry(policy="soft", rule=None, mode="mark", count=1, share=0.1)
    columns = [ColumnEntry(column=f"c{n}", count=1, share=0.1) for n in range(11)]
    report = report_of(records(count=9), records(message="bad"), is_topic=False, is_rows=True)
    report = report.model_copy(
        update={"hours": (), "partitions": (), "header_keys": (), "key_prefixes": ()}
    )
    parts = {"rules": (soft, *rules), "columns": tuple(columns)}
    html = as_html(report.model_copy(update=parts))
    page = Page(html)
    assert len(html.encode()) < MB
    assert "1 of 10 rows (10 %)" in " ".join(page.text.split())
    assert "soft, mark: the rows are accepted" in page.text
    assert "such as <id> null" in page.text
    assert "And 1001 more;" in page.text
    assert "rule_999" not in page.text
    assert page.text.index("Rules") < page.text.index("990 more rules") < page.text.index("Columns")
    assert "1 more columns" in page.text
    assert "records" not in page.text
    assert "No rule objects to a row." in Page(as_html(report)).text
