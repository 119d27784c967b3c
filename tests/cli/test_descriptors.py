"""The limit of open file descriptors."""

import resource

import pytest

from penstock.cli.failures import CommandError, ExitCode
from penstock.cli.process.descriptors import LEAST, raise_descriptor_limit


@pytest.fixture
def few():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_to_the_hard_limit(few):
    raise_descriptor_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


@pytest.mark.parametrize("allowed", [LEAST - 1, LEAST])
def test_too_few_are_an_error_that_may_go_away(monkeypatch, allowed):
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    if allowed < LEAST:
        with pytest.raises(CommandError, match=f"only {allowed} file descriptors") as raised:
            raise_descriptor_limit()
        assert raised.value.code == ExitCode.CLUSTER_FAILED
    else:
        raise_descriptor_limit()
