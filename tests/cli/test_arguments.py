"""The values of options of commands over stored records."""

import argparse

import pytest

from penstock.cli.jobs import arguments


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("0.05", 0.05),
        ("5%", 0.05),
        ("5 %", 0.05),
        ("0", 0),
        ("100%", 1),
        ("0.1%", 0.001),
        ("1", 1),
        (" 0.5 % ", 0.005),
        ("1e-3", 0.001),
    ],
)
def test_a_share_is_a_number_or_a_percentage(text, share):
    assert arguments.ratio(text) == share


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "1.1",
        "-0.1",
        "-1%",
        "101%",
        "five",
        "",
        "%",
        "nan",
        "sNaN",
        "inf",
        "NaN%",
        "0,05",
        "1e9999999999%",
    ],
)
def test_other_texts_are_not_a_share(text):
    with pytest.raises(argparse.ArgumentTypeError, match="such as 5%"):
        arguments.ratio(text)


@pytest.mark.parametrize(
    "text",
    [
        "local", "local[*]", "local[4]", "local[2,3]", "local[*, 3]", "local-cluster[2,1,1024]",
        "yarn", "spark://a:7077", "k8s://https://a:443", "mesos+x.y-z://a",
    ],
)  # fmt: skip
def test_a_master(text):
    assert arguments.master(text) == text


@pytest.mark.parametrize("text", ["", "Local", "local[]", "local[x]", "spark:a", "a b", "spark://"])
def test_another_master_is_a_wrong_argument(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a master, such as"):
        arguments.master(text)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5"])
def test_a_number_is_at_least_1(text):
    assert arguments.positive_number("1") == 1
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of at least 1"):
        arguments.positive_number(text)


def test_places():
    assert arguments.location("a").is_topic
    assert arguments.location("path:a").is_folder
    assert arguments.location_or_table("table:a").is_table
    with pytest.raises(argparse.ArgumentTypeError, match="'table:a': only split writes tables"):
        arguments.location("table:a")
    with pytest.raises(argparse.ArgumentTypeError, match="for a folder, write path:a/b"):
        arguments.location_or_table("a/b")
