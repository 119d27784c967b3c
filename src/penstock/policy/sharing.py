"""Values that the policies of a gateway's workers share."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARED_MAX: Final = 64 * 1024 * 1024
"""The maximum of bytes of all names and values. The least recently used are removed."""
NAME_MAX: Final = 1000
"""The maximum of bytes of a name."""
VALUE_MAX: Final = 16 * 1024 * 1024
"""The maximum of bytes of a value."""
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
        """Return the size of a value with its name."""
        return len(value) + NAME_MAX


_values = SharedStore()
_new = SharedStore()
"""Only a gateway's worker empties it, so it has the same bound."""


def share_value(name: str, value: bytes) -> None:
    """Share a value with the policies in other workers, such as the answer of a registry.

    In a gateway, each worker has it from its next batch on, also workers that start later and those
    of a reload. On Spark and in ``penstock check``, only this process has it. The last value of a
    name counts. Values are lost when the gateway ends, and the least recently used are removed
    above 64 MiB in all, so a policy must work without them. Any thread can call this.

    Args:
        name: The name, at most 1,000 bytes. All policies share these names, so begin with the name
            of the policy.
        value: The value, at most 16 MiB. Check it when you read it: before a reload, another
            version of the policy may have written it.

    Raises:
        ValueError: Name or value is larger.
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
    """Return a value that a policy in this or another worker has shared.

    Returns:
        The value, or None if this worker does not have it, or no longer has it.
    """
    with _lock:
        return _values.get(name)


def has_new_values() -> bool:
    """Return whether a value was shared here since the last call of `take_shared`."""
    return bool(_new)


def take_shared() -> Sequence[tuple[str, bytes]]:
    """Return the names and values shared here since the last call. For the engine."""
    if not _new:
        return ()
    with _lock:
        new_values = tuple(_new.items())
        _new.clear()
    return new_values


def put_shared(values: Iterable[tuple[str, bytes]]) -> None:
    """Keep values of other workers. For the engine."""
    with _lock:
        for name, value in values:
            _values[name] = value
