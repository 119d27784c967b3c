"""Values of command lines that have the syntax of keys."""

from __future__ import annotations

import argparse

from penstock.configuration.values import servers


def bootstrap_servers(text: str) -> str:
    """Read the cluster's bootstrap addresses for argparse: `HOST:PORT`, separated by commas.

    Raises:
        argparse.ArgumentTypeError: They have another form.
    """
    try:
        servers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from None
    return text
