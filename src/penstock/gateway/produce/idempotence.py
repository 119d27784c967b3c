"""The choices of `produce.request.interceptors.idempotence`."""

from __future__ import annotations

from enum import Enum


class Idempotence(Enum):
    """The treatment of idempotent producers whose records are dropped."""

    TRANSLATE = "translate"
    """Their sequence numbers are changed, so that the broker sees no hole."""
    STRIP = "strip"
    """These clients lose idempotence, except for transactional producers."""
    REFUSE = "refuse"
    """A batch that loses a record is refused."""
