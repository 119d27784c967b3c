"""What one worker's policy has learned, for those of the other workers."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARED_MAX: Final = 64 * 1024 * 1024
"""Bytes of names and values that are kept together; what was used last is kept."""
NAME_MAX: Final = 1000
"""Bytes of a name."""
VALUE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a value."""
_lock = Lock()


class SharedStore(LRUCache[str, bytes]):
    """Names and values, within `SHARED_MAX` bytes."""

    def __init__(self) -> None:
        super().__init__(SHARED_MAX)

    def __setitem__(self, name: str, value: bytes, *_: object) -> None:
        self.pop(name, None)  # its size may be another
        super().__setitem__(name, value)

    @staticmethod
    def getsizeof(value: bytes) -> float:
        """Return what a value counts; its name is at most as much again."""
        return len(value) + NAME_MAX


_values = SharedStore()
_new = SharedStore()
"""Nobody takes it outside a gateway's worker, so it is within the same bound."""


def share_value(name: str, value: bytes) -> None:
    """Tell the instances of policies in other workers what this one has learned.

    For what is costly to learn and good for all, such as the answer of a registry. In a gateway
    each worker has it from its next batch on, as has each one that is started later or by a
    reload; elsewhere (on Spark, in ``penstock check``) this process alone. Of the values of a name
    the last one counts. They are forgotten when the gateway ends, and the least recently used when
    all of them are larger than 64 MiB: a policy has to be able to do without. It may be called
    from any thread.

    Args:
        name: What it is called, at most 1,000 bytes. All policies share these names, so begin with
            something of the policy's own.
        value: What was learned, at most 16 MiB. Whoever reads it has to check that it can be
            read: another version of the policy may have written it, before a reload.

    Raises:
        ValueError: One of them is larger.
    """
    if len(name.encode()) > NAME_MAX or len(value) > VALUE_MAX:
        raise ValueError(
            f"a name of {len(name)} characters with {len(value)} bytes cannot be shared; there are "
            f"at most {NAME_MAX} bytes in a name and {VALUE_MAX} in a value"
        )
    with _lock:
        _values[name] = value
        _new[name] = value


def shared_value(name: str) -> bytes | None:
    """Return what an instance of a policy, in this or another worker, has shared by a name.

    Returns:
        None where it is not known here, or not any more.
    """
    with _lock:
        return _values.get(name)


def take_shared() -> Sequence[tuple[str, bytes]]:
    """Return what was shared here since the last call: names and values. For the engine."""
    if not _new:
        return ()
    with _lock:
        taken = tuple(_new.items())
        _new.clear()
    return taken


def put_shared(values: Iterable[tuple[str, bytes]]) -> None:
    """Keep what other workers have shared. For the engine."""
    with _lock:
        for name, value in values:
            _values[name] = value
