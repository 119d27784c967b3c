"""What `redrive` decides before the cluster is contacted."""

import argparse

import pytest

from penstock.cli import redrive
from penstock.configuration import ConfigurationError
from penstock.jobs.batches.letter_topics import FoundLetters
from penstock.jobs.plan import load_plan


@pytest.fixture
def options(file):
    """Parses arguments of the command."""

    def parse(*arguments, letters="orders.dead", target="orders"):
        parser = argparse.ArgumentParser()
        redrive.add_arguments(parser)
        parser.set_defaults(command="redrive")
        return parser.parse_args(
            [str(file), "--from", letters, "--to", target, "--local", *arguments]
        )

    return parse


@pytest.mark.parametrize(
    ("arguments", "target", "returning", "staying"),
    [
        ((), "orders", ["orders", None], ["users"]),
        ((), "path:/a", ["orders", "users", None], []),
        (("--topic", "users,pay*"), "orders", ["users", "payments"], ["orders"]),
        (("--topic", "users"), "path:/a", ["users"], ["orders"]),
    ],
)
def test_letters_of_the_target_return_or_those_that_are_named(
    options, arguments, target, returning, staying
):
    topics = redrive._topics(options(*arguments, target=target))
    assert all(topic in topics for topic in returning)
    assert not any(topic in topics for topic in staying)


def test_a_topic_that_is_not_named_is_an_error(options):
    with pytest.raises(ConfigurationError):
        redrive._topics(options("--topic", " , "))


@pytest.mark.parametrize(
    ("letters", "target", "message"),
    [
        ("a", "a", "--from and --to must differ"),
        ("path:/a", "path:/a/b", "neither may be in the other"),
        ("a", "a.parked", "the place of records that fail too often must differ"),
        ("path:/a", "path:/a.parked", "the place of records that fail too often"),
    ],
)
def test_places_are_apart(options, letters, target, message):
    with pytest.raises(ConfigurationError, match=message):
        redrive.run(options(letters=letters, target=target))


@pytest.mark.parametrize("number", ["0", "-1"])
def test_a_record_is_judged_again_at_least_once(options, number):
    with pytest.raises(ConfigurationError, match=r"^--max-replays must be 1 or more$"):
        redrive.run(options("--max-replays", number))


def test_an_interceptor_that_cannot_be_loaded_is_an_error_with_its_option(options, file):
    with pytest.raises(ConfigurationError, match=r"^--with none.None: .*there is no module none"):
        redrive.run(options("--with", "none.None"))
    plan = load_plan(file)
    assert redrive._repairing(plan, None) is plan


def test_letters_that_stay_are_printed(capsys):
    redrive._show_others(FoundLetters())
    assert capsys.readouterr().out == ""
    redrive._show_others(FoundLetters(1, {"users": 2}))
    assert capsys.readouterr().out.startswith("2 letters of other topics stay: users 2")


@pytest.mark.parametrize(("arguments", "words"), [((), ""), (("--dry-run",), " (dry run)")])
def test_a_dry_run_says_so(options, arguments, words):
    assert redrive._dry(options(*arguments)) == words
