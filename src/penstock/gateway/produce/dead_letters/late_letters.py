"""Dead letters whose client has got an error, while a broker may have them.

They wait for a retry of the client, for minutes. So they do not count as letters for which clients
wait: those of a stuck leader would leave no memory for the letters of other leaders.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.gateway.produce.dead_letters.partition_letters import WaitingLetters

LATE_MAX_BYTES: Final = 64 * 2**20


class LateLetters:
    """Letters whose client has got an error, also if it retries; the oldest first."""

    def __init__(self) -> None:
        self._letters: OrderedDict[WaitingLetters, None] = OrderedDict()
        self.size = 0

    def add(self, letters: WaitingLetters) -> None:
        """Take letters in, behind all others."""
        if letters in self._letters:
            self._letters.move_to_end(letters)
        else:
            self._letters[letters] = None
            self.size += letters.size

    def discard(self, letters: WaitingLetters) -> None:
        """Take letters out, if they are there."""
        if letters in self._letters:
            del self._letters[letters]
            self.size -= letters.size

    def surplus(self) -> Iterator[WaitingLetters]:
        """Take out the oldest letters, as long as there are too many bytes."""
        while self.size > LATE_MAX_BYTES:
            oldest = next(iter(self._letters))
            self.discard(oldest)
            yield oldest
