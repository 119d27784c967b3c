"""Whether the interceptors of a gateway that starts are those that were used last.

Each gateway keeps a digest of its interceptors with the state of producers. Where all digests of
the last minutes are equal, no batch was decided by other interceptors, so a start begins no doubts
(see `doubts`). A digest that is unknown, old or different begins doubts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN_MAX_AGE_S: Final = 180.0
"""After so long without a record, a gateway may have run without keeping a digest."""
OTHERS_MAX_AGE_S: Final = 3600.0
"""Longer than batches are retried (`DOUBTED_S`), so that clocks of brokers may differ."""


class Interceptors(NamedTuple):
    """The interceptors of a gateway.

    Attributes:
        digest: Equal for interceptors that decide the same; empty if it is not known.
        in_doubt: Whether interceptors have changed in the last minutes, here or elsewhere.
    """

    digest: str
    in_doubt: bool


class KeptInterceptors(NamedTuple):
    """The interceptors that a gateway had, as it kept them.

    Attributes:
        interceptors: These; None where a gateway kept nothing about them.
        age_s: For how long it has been kept.
    """

    interceptors: Interceptors | None
    age_s: float


def are_as_before(
    digest: str, own: KeptInterceptors | None, others: Iterable[KeptInterceptors] = ()
) -> bool:
    """Whether interceptors have the digest of all that may have been used in the last minutes.

    Args:
        digest: That of the new interceptors.
        own: The interceptors that this gateway kept before it started, or None.
        others: Those that other gateways of the cluster kept last.
    """
    if not digest or own is None or not 0.0 <= own.age_s <= OWN_MAX_AGE_S:
        return False
    recent = (other for other in others if other.age_s <= OTHERS_MAX_AGE_S)
    return all(
        entry.interceptors == Interceptors(digest, in_doubt=False) for entry in (own, *recent)
    )
