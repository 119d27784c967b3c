"""Points in time as Python has them."""

from __future__ import annotations

import datetime as dt
from typing import Final

from penstock.policies.decoded.errors import NotDecodedError

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def instant(micros: int) -> dt.datetime:
    """Return the time of microseconds since the epoch.

    Raises:
        NotDecodedError: Python does not have it.
    """
    try:
        return EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise NotDecodedError("has a timestamp that is not between the years 1 and 9999") from None
