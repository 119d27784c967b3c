"""Which errors may go away by themselves: a start that fails by them is tried again."""

from __future__ import annotations

import errno
from typing import Final

from penstock.configuration.errors import ConfigurationError, NotNowError
from penstock.errors import PenstockError
from penstock.policy import RetriableException

_PASSING: Final = (NotNowError, ConnectionError, TimeoutError, RetriableException)
_NOT_RESOLVED: Final = "gaierror"
"""A class of `socket`, which what is below the gateway does not import."""
_NUMBERS: Final = frozenset(
    {
        errno.EADDRINUSE,
        errno.EAGAIN,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)


def may_pass(error: BaseException) -> bool:
    """Return whether an error, or what has caused it, may go away by itself.

    Libraries wrap such errors in their own, and Penstock in errors that name a key.
    """
    seen_ids: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen_ids:
        if isinstance(cause, _PASSING) or (isinstance(cause, OSError) and _is_passing(cause)):
            return True
        seen_ids.add(id(cause))
        # Penstock's are raised from None where their text says it all.
        is_hidden = cause.__suppress_context__ and not isinstance(cause, PenstockError)
        cause = cause.__cause__ or (None if is_hidden else cause.__context__)
    return False


def _is_passing(error: OSError) -> bool:
    return error.errno in _NUMBERS or type(error).__name__ == _NOT_RESOLVED


def unusable_by(error: BaseException, text: str) -> ConfigurationError:
    """Return the error that what the configuration names cannot be used, perhaps only now.

    Args:
        error: Why not.
        text: The text, with the key.
    """
    return NotNowError(text) if may_pass(error) else ConfigurationError(text)
