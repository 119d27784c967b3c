"""The knowledge about the batches of a producer before the first that is remembered."""

from __future__ import annotations

from enum import Enum
from typing import Final


class History(Enum):
    """The knowledge about the batches before the first remembered batch."""

    UNKNOWN = "unknown"
    """Nothing: records may have been dropped elsewhere, or stored without this gateway."""
    UNRECORDED = "unrecorded"
    """No gateway has dropped a record; some may have been stored without any gateway."""
    RESTORED = "restored"
    """An earlier process has written it: records may have been dropped since."""
    FOLLOWED = "followed"
    """The broker accepts the batches from here, perhaps because it has already stored them, and
    more, without this gateway."""
    COMPLETE = "complete"
    """Everything, or the broker has confirmed the sequence numbers."""


BEGUN: Final = frozenset({History.UNKNOWN, History.UNRECORDED})
"""The histories of a producer at its first batch here, without a record."""
MAY_BE_OLD: Final = frozenset({History.UNKNOWN, History.RESTORED})
UNCONFIRMED: Final = frozenset({History.UNKNOWN, History.UNRECORDED, History.FOLLOWED})
