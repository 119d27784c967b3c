"""Plain English in the pages that were written for strangers: words that may not come back.

A page joins `PAGES` when it is free of them. `make lint` runs this.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from penstock.cli import COMMANDS, complete_parser

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    "CONTRIBUTING.md",
    "README.md",
    "docs/audit-report.md",
    "docs/clusters.md",
    "docs/audit.md",
    "docs/choosing.md",
    "docs/columns.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/console.md",
    "docs/design.md",
    "docs/failures.md",
    "docs/getting-started.md",
    "docs/glossary.md",
    "docs/guarantees.md",
    "docs/jobs.md",
    "docs/kips.md",
    "docs/measured.md",
    "docs/pipeline.md",
    "docs/spark.md",
    "docs/streams.md",
    "docs/interceptors.md",
    "docs/json-schema.md",
    "docs/look-ups.md",
    "docs/metrics.md",
    "docs/modes.md",
    "docs/named-policies.md",
    "docs/policies.md",
    "docs/security.md",
    "docs/topics.md",
    "docs/troubleshooting.md",
    "docs/upgrade.md",
)
WORDS: Final = {
    r"\b(this|that|the|each|another|every|which|other|old|new|bad|good) ones?\b|\bones\b": "name it",
    r"\b(told|tells|asked|asks)\b(?! \w+ apart)": "say, report, request",
    r"\banew\b": "again",
    r"\bfalls? short\b": "fails, is refused",
    r"\bfollows from it\b": "has no effect",
    r"\ball the same\b": "still, even so",
    r"\bcomes? of\b": "results from",
    r"\bare? of the\b|\bis of the\b": "belongs to",
    r"(^|[.:;|] )[Ww]hat (is|are|was|has|comes|passes|goes)\b": "name the subject",
    r"(^|[.:;|] )[Ww]ho (is|are|was|has|comes|may)\b": "name the subject",
    r"\bso it is\b|\bas it is where\b": "say what happens",
    r"\bsomething else\b": "name it",
    r"\bwhere there is none\b": "without it",
}
"""Patterns, and what to write."""
_CODE: Final = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def found(text: str) -> list[str]:
    prose = _CODE.sub("`", text)
    return [
        f"{match[0].strip()!r} (write: {instead}): {line.strip()[:80]}"
        for line in prose.splitlines()
        for pattern, instead in WORDS.items()
        for match in re.finditer(pattern, line)
    ]


def joined(text: str) -> str:
    """Return a text whose lines were wrapped, in one line, with a bar between its parts."""
    return re.sub(r"\s+", " ", re.sub(r"\n +(?=-)|\n\n+", " | ", text))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_strangers_is_in_plain_english(page):
    assert found((ROOT / page).read_text()) == []


def test_the_help_is_in_plain_english():
    parser, _ = complete_parser()
    assert found(joined(parser.format_help())) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_in_plain_english(command):
    _, commands = complete_parser()
    by_name = dict(zip(COMMANDS, commands, strict=True))
    assert found(joined(by_name[command].format_help())) == []


@pytest.mark.parametrize(
    "text",
    [
        "The old one stays.",
        "Nothing is told.",
        "It is loaded anew.",
        "What is something else is not used.",
        "| a | Who comes back gets it |",
    ],
)
def test_the_words_are_found(text):
    assert found(text)


def test_code_is_not_prose():
    assert found("`what is told`, and ```\nwhat is told\n```") == []
