"""Write the man page and the completions of shells, from the parser that `--help` shows.

They are files of this folder, so that a wheel has them without the libraries that make them:
`make man` writes them, and a test fails while they are not what this writes.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Final

import shtab
from argparse_manpage.manpage import Manpage

import penstock
from penstock.cli import complete_parser

SHARE: Final = Path(__file__).parent
FILES: Final = {
    "FILE": shtab.FILE,
    "OTHER_FILE": shtab.FILE,
    "RECORDS.jsonl": shtab.FILE,
    "REPORT": shtab.FILE,
    "PATH": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}
"""What is completed, by the names that arguments have in `--help`."""
EXIT_STATUS: Final = r"""
.TP
.B 0
Done.
.TP
.B 1
The check failed: records or topics were refused.
.TP
.B 2
Wrong usage or configuration: the message names the file, the key and the correct values.
.TP
.B 3
What may go away by itself: the cluster or Spark cannot be reached, or failed, a port is taken."""
EXAMPLES: Final = r"""
.TP
.B penstock dev
Start a local Kafka, and the gateway with a sample policy in front of it.
.TP
.B penstock check penstock.properties
Load the policies, and print which of them judge which topics.
.TP
.B penstock gateway penstock.properties
Run the gateway in front of the cluster that the file names."""


def completions_and_man_page() -> dict[str, str]:
    """Return the texts, by the path in this folder."""
    os.environ["COLUMNS"] = "72"  # the page is indented
    parser, commands = complete_parser()
    for one in (parser, *commands):
        for action in one._actions:
            if isinstance(action.metavar, str) and action.metavar in FILES:
                action.complete = FILES[action.metavar]  # type: ignore[attr-defined]
    return {
        "bash-completion/completions/penstock": shtab.complete(parser, "bash"),
        "zsh/site-functions/_penstock": shtab.complete(parser, "zsh"),
        "fish/vendor_completions.d/penstock.fish": shtab.complete(parser, "fish"),
        "man/man1/penstock.1": _man_page(parser),
    }


def _man_page(parser: argparse.ArgumentParser) -> str:
    page = Manpage(
        parser,
        format="single-commands-section",
        _data={
            "description": "policies for Kafka records, enforced before they are stored",
            "project_name": "Penstock",
            "version": penstock.__version__,
            "manual_title": "Penstock Manual",
            # The page of a version is the same on every day.
            "date": " ",
        },
    )
    page.add_section("exit status", "=", EXIT_STATUS)
    page.add_section("examples", "=", EXAMPLES)
    return str(page)


def main() -> int:
    """Write the files."""
    for path, text in completions_and_man_page().items():
        (SHARE / path).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
