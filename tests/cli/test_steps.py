"""The steps of a command with a slow start."""

import re

import pytest

from penstock.cli.output.steps import StepLines


def test_a_step_prints_its_start_and_duration(capsys):
    with StepLines().step("starting Kafka"):
        assert capsys.readouterr().out == "starting Kafka ...\n"
    assert re.fullmatch(r"  done in \d+\.\d s\n", capsys.readouterr().out)


def test_a_step_that_fails_is_not_done(capsys):
    with pytest.raises(OSError, match="no"), StepLines().step("starting Kafka"):
        raise OSError("no")
    assert "done" not in capsys.readouterr().out
