"""`penstock check` names globs that are equally long and match the same topic."""

from fnmatch import fnmatchcase

import pytest

from penstock.cli.checks.equal_globs import equal_globs
from penstock.configuration import load_configuration
from penstock.engine.plans.topic_defaults import TopicDefaults


def pairs(tmp_path, *lines: str):
    file = tmp_path / "p.properties"
    file.write_text("upstream.bootstrap.servers=k:1\n" + "\n".join(lines))
    defaults = load_configuration(file).topic_defaults
    return defaults, equal_globs(defaults)


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [("or*", "*rs", "*rs"), ("order?", "orders", "order?"), ("a[b]*", "ab???", "a[b]*")],
)
def test_a_pair_is_named_with_a_topic_and_with_what_holds(tmp_path, first, second, holds):
    defaults, (warning,) = pairs(
        tmp_path, f"topics.{first}.penstock.mode=mark", f"topics.{second}.penstock.mode=observe"
    )
    assert f"topics.{first}.penstock.mode" in warning
    assert f"topics.{second}.penstock.mode" in warning
    assert warning.endswith(f"the alphabetically first holds, {holds}")
    name = warning.partition("such as ")[2].partition(",")[0]
    assert fnmatchcase(name, first)
    assert fnmatchcase(name, second)
    value = next(line.value for line in defaults if line.glob == holds)
    assert TopicDefaults(defaults).settings(name) == {"penstock.mode": value}


@pytest.mark.parametrize(
    "lines",
    [
        ("topics.a*.penstock.mode=mark", "topics.b*.penstock.mode=observe"),
        ("topics.a*.penstock.mode=mark", "topics.*b.penstock.mode=mark"),
        ("topics.a*.penstock.mode=mark", "topics.*bc.penstock.mode=observe"),
        ("topics.a*.penstock.mode=mark", "topics.*b.penstock.quarantine.max.ratio=0.5"),
        ("topics.*.penstock.mode=mark", "penstock.mode=observe"),
        ("topics.ab.penstock.mode=mark", "topics.cd.penstock.mode=observe"),
    ],
)
def test_lines_between_which_nothing_is_to_be_decided_are_not(tmp_path, lines):
    assert pairs(tmp_path, *lines)[1] == []


def test_only_some_of_many_pairs_are_named(tmp_path):
    lines = [
        f"topics.*{number:02}*.penstock.quarantine.max.ratio=0.{number}" for number in range(9)
    ]
    found = pairs(tmp_path, *lines)[1]
    assert len(found) == 21
    assert found[-1] == "there are more pairs of globs that are equally long"
