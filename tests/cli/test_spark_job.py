"""What the commands over stored records have in common."""

import pytest

from penstock.cli import complete_parser
from penstock.cli.jobs.spark_job import needs_connector

SPLIT = ("split", "f", "--topic", "t", "--accepted", "a", "--rejected", "d")


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (("audit", "f", "--topic", "t"), False),
        (("audit", "f", "--input", "records.parquet"), False),
        (("audit", "f", "--topic", "t", "--reader", "connector"), True),
        (SPLIT, False),
        ((*SPLIT, "--reader", "connector"), True),
        ((*SPLIT, "--rejected", "path:dead"), True),
        ((*SPLIT[:2], "--input", "in", *SPLIT[4:]), True),
        (
            ("split", "f", "--input", "in", "--accepted", "path:a", "--rejected", "path:d"),
            False,
        ),
        (("redact", "f", "--topic", "t", "--to", "path:a"), True),
        (("redact", "f", "--input", "table:t", "--to", "path:a"), False),
        (("redrive", "f", "--from", "d", "--to", "a"), False),
        (("redrive", "f", "--from", "path:d", "--to", "a"), True),
    ],
)
def test_the_connector_is_for_topics_on_one_side_only(arguments, needed):
    assert needs_connector(complete_parser()[0].parse_args(arguments)) is needed
