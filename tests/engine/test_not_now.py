"""Errors that may go away by themselves, alone and wrapped; those that do not."""

import errno
import socket
import urllib.error

import pytest

from penstock.configuration import ConfigurationError, NotNowError
from penstock.engine.not_now import may_pass, unusable_by
from penstock.policy import PolicyViolationException, RetriableException

PASSING = [
    ConnectionError(),
    ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    TimeoutError(),
    RetriableException("the registry is away"),
    socket.gaierror(socket.EAI_AGAIN, "try again"),
    socket.gaierror(socket.EAI_NONAME, "unknown"),
    OSError(errno.EADDRINUSE, "in use"),
    OSError(errno.EMFILE, "too many files"),
    OSError(errno.EHOSTUNREACH, "no route"),
    NotNowError("not now"),
]
LASTING = [
    ValueError("wrong"),
    FileNotFoundError(errno.ENOENT, "no file"),
    PermissionError(errno.EACCES, "denied"),
    OSError(errno.EADDRNOTAVAIL, "not of this machine"),
    OSError("no number"),
    PolicyViolationException("refused"),
    ConfigurationError("wrong"),
]


def raised_in_another(error: BaseException, *, otherwise: BaseException, hides: bool = False):
    """Return an error that is raised while another is handled."""
    try:
        try:
            raise error
        except type(error):
            if hides:
                raise otherwise from None
            raise otherwise  # noqa: B904 - as a library does
    except type(otherwise) as found:
        return found


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_errors_that_may_pass(error):
    assert may_pass(error)
    assert may_pass(raised_in_another(error, otherwise=ValueError("by a library")))
    assert may_pass(raised_in_another(error, otherwise=urllib.error.URLError("by a library")))
    assert type(unusable_by(error, "text")) is NotNowError


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_errors_that_stay(error):
    assert not may_pass(error)
    assert not may_pass(raised_in_another(error, otherwise=ValueError("by a library")))
    assert type(unusable_by(error, "text")) is ConfigurationError
    assert str(unusable_by(error, "text")) == "text"


def test_the_cause_of_an_own_error_counts_where_its_text_says_it_all():
    own = ConfigurationError("penstock.properties: key: text")
    assert may_pass(raised_in_another(ConnectionError(), otherwise=own, hides=True))


def test_a_cause_that_a_policy_hides_does_not_count():
    of_policy = ValueError("the key is wrong")
    assert not may_pass(raised_in_another(ConnectionError(), otherwise=of_policy, hides=True))


def test_errors_that_cause_each_other_have_an_end():
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert not may_pass(first)
