"""The documents agree with the code."""

import re
import textwrap
import tomllib
from pathlib import Path

import pytest
import yaml

from penstock.configuration import load_configuration

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_have_a_target(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_target_that_is_named_exists():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"`make ([a-z][\w-]*)", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(set(named)) > 15
    assert set(named) <= targets


def test_make_fuzz_gives_native_tests_every_number_that_they_know():
    of_tests = "".join(path.read_text() for path in (ROOT / "native/tests").rglob("*.rs"))
    known = set(re.findall(r'\b(?:var|number)\("([A-Z_]+)"\)', of_tests))
    assert "RING_HISTORIES" in known
    (recipe,) = re.findall(
        r"^fuzz:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert known <= set(re.findall(r"([A-Z_]+)=", recipe))


def test_every_place_in_the_design_exists():
    places = re.findall(r"`(src/[\w/]+\.py):(\w+)`", (ROOT / "docs" / "design.md").read_text())
    assert len(places) > 12
    for file, name in places:
        assert re.search(rf"^\s*(async )?def {name}\b", (ROOT / file).read_text(), re.MULTILINE), (
            name
        )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_in_documents_compiles(document):
    for block in re.findall(r"```python\n(.*?)```", document.read_text(), re.DOTALL):
        compile(textwrap.dedent(block), str(document), "exec")


def test_the_extra_for_spark_has_what_its_guide_begins_with():
    guide = (ROOT / "docs" / "pipeline.md").read_text()
    [first, *_] = re.findall(r"```properties\n(.*?)```", textwrap.dedent(guide), re.DOTALL)
    assert "penstock.policies.JsonSchema" in first
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert "penstock-kafka[json-schema]" in extras["spark"]


def test_every_document_has_its_place_on_the_site():
    """Otherwise `make site` fails."""
    _, _, navigation = (ROOT / "deploy/site/mkdocs.yml").read_text().partition("\nnav:\n")
    named = re.findall(r"[\w/-]+\.md", navigation)
    assert sorted(named) == sorted(str(document.relative_to(ROOT)) for document in DOCUMENTS)


def guides():
    """Yield the pages that the site lists for a role: each is about one task."""
    _, _, navigation = (ROOT / "deploy/site/mkdocs.yml").read_text().partition("\nnav:\n")
    for title, pages in re.findall(r"^  - (.+):\n((?:      - .+\n)+)", navigation, re.MULTILINE):
        if title.startswith("For "):
            yield from (ROOT / page for page in re.findall(r"[\w/-]+\.md", pages))


@pytest.mark.parametrize("page", list(guides()), ids=lambda page: page.name)
def test_a_guide_has_at_most_150_lines(page):
    assert len(page.read_text().splitlines()) <= 150


def test_guides_are_found():
    assert len(list(guides())) >= 8


def test_the_readme_has_at_most_100_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_there_are_at_most_20_pages():
    assert len(list((ROOT / "docs").glob("*.md"))) <= 20


def test_the_pages_have_at_most_35_000_words():
    """Tables count by their words, not by the bars between their cells."""
    text = " ".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) <= 35_000


def test_every_alert_has_its_row():
    """Its severity, its owner and its duration are those of the rule."""
    rules = yaml.safe_load((ROOT / "deploy/prometheus/penstock.rules.yml").read_text())
    alerts = {
        rule["alert"]: (
            rule["labels"]["severity"],
            rule["labels"]["owner"],
            rule.get("for", "at once"),
        )
        for rule in rules["groups"][0]["rules"]
    }
    page = (ROOT / "docs/monitoring.md").read_text()
    rows = re.findall(r"^\| `(Penstock\w+)` \| (\w+) \| (\w+) \| ([\w ]+) \|", page, re.MULTILINE)
    assert {name: tuple(cells) for name, *cells in rows} == alerts


def properties_in_documents():
    for document in DOCUMENTS:
        blocks = re.findall(r"```properties\n(.*?)```", document.read_text(), re.DOTALL)
        for number, block in enumerate(blocks):
            yield pytest.param(textwrap.dedent(block), id=f"{document.name}-{number}")


@pytest.mark.parametrize("block", list(properties_in_documents()))
def test_configurations_in_documents_have_known_keys_with_valid_values(block, tmp_path):
    given = "" if "upstream." in block else "upstream.bootstrap.servers=nowhere.invalid:9092\n"
    file = tmp_path / "penstock.properties"
    file.write_text(given + block)
    for name in re.findall(r"\$\{file:([^:}]+)\}", block):
        (tmp_path / name).write_text("secret")
    assert load_configuration(file, read_declared=lambda *_: ()).warnings == ()
