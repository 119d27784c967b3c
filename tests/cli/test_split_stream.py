"""The options of a stream: durations, and which go together."""

import argparse

import pytest

from penstock.cli.jobs.arguments import add_source_arguments, add_writing_arguments
from penstock.cli.jobs.split_stream import (
    add_streaming_arguments,
    check_streaming,
    duration,
    publishing,
)
from penstock.configuration import ConfigurationError
from penstock.jobs.locations import RecordLocation


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("100ms", 0.1),
        (" 500ms ", 0.5),
        ("1s", 1),
        ("90m", 5400),
        ("24h", 86_400),
        ("86400s", 86_400),
    ],
)
def test_a_duration(text, seconds):
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "99ms", "0s", "25h", "86401s", "1.5s", "-1s", "1d", "1 s", "1" * 13 + "ms"]
)
def test_another_duration_is_a_wrong_argument(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration from 100ms to 24h"):
        duration(text)


def options_of(*arguments, accepted="good", rejected="bad"):
    parser = argparse.ArgumentParser()
    for add in (add_source_arguments, add_writing_arguments, add_streaming_arguments):
        add(parser)
    options = parser.parse_args(arguments)
    options.accepted, options.rejected = map(RecordLocation.parse, (accepted, rejected))
    return options


STREAM = ("--streaming", "--topic", "orders")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--again",),
        STREAM,
        (*STREAM, "--available-now", "--every", "1s", "--batch-records", "5"),
        (*STREAM, "--again", "--available-now"),
        (*STREAM, "--checkpoint", "none"),
        (*STREAM, "--metrics-listener", "127.0.0.1:9", "--metrics-file", "m"),
    ],
)
def test_options_that_go_together(arguments):
    check_streaming(options_of(*arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--checkpoint", "c"),
        ("--available-now",),
        ("--every", "1s"),
        ("--batch-records", "1"),
        ("--metrics-file", "m"),
        ("--metrics-listener", "a:1"),
    ],
)
def test_options_of_a_stream_need_a_stream(arguments):
    with pytest.raises(ConfigurationError, match=r"require --streaming$"):
        check_streaming(options_of(*arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--streaming",), "--streaming needs --topic T"),
        ((*STREAM, "--to", "2026-01-01"), "--to cannot be used with --streaming"),
        ((*STREAM, "--again"), "--again cannot be used with --streaming, which would write"),
    ],
)
def test_options_that_do_not_go_with_a_stream(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        check_streaming(options_of(*arguments))


@pytest.mark.parametrize("target", ["path:dir", "table:t"])
def test_a_stream_to_folders_or_tables_needs_a_checkpoint(target):
    for targets in ({"accepted": target}, {"rejected": target}):
        check_streaming(options_of(*STREAM, "--checkpoint", "c", **targets))
        with pytest.raises(ConfigurationError, match="needs --checkpoint DIR"):
            check_streaming(options_of(*STREAM, **targets))


@pytest.mark.parametrize("entry", ["metadata", "offsets", "commits"])
def test_a_checkpoint_of_spark_is_not_that_of_a_stream_to_topics(tmp_path, entry):
    arguments = (*STREAM, "--checkpoint", str(tmp_path))
    (tmp_path / "other").touch()
    check_streaming(options_of(*arguments))
    (tmp_path / entry).mkdir()
    with pytest.raises(ConfigurationError, match="belongs to a stream to folders or tables"):
        check_streaming(options_of(*arguments))
    check_streaming(options_of(*arguments, accepted="path:dir"))


def test_without_an_option_of_metrics_nothing_is_published():
    with publishing(options_of(*STREAM), None) as publish:
        assert publish() is None


@pytest.mark.parametrize(
    "arguments",
    [("--every", "1"), ("--batch-records", "0"), ("--metrics-listener", "a")],
)
def test_values_that_are_not_valid_end_the_program(arguments, capsys):
    with pytest.raises(SystemExit):
        options_of(*STREAM, *arguments)
    assert arguments[0] in capsys.readouterr().err
