"""The implementations that judge Avro payloads: the extension, and its oracle in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import _native
from penstock.policies.schema_policy.payloads.avro import compile as compiling
from tests.policies.schema_policy.payloads.avro.walk import Walker

if TYPE_CHECKING:
    import pytest


class Oracle:
    """What `AvroSchema` calls of the extension, in Python."""

    @staticmethod
    def AvroNodes(  # noqa: N802 - as in the extension
        nodes: list[Any], *_: int
    ) -> Walker:
        """Return the judge of payloads by nodes."""
        return Walker(nodes)


IMPLEMENTATIONS: Final[dict[str, Any]] = {"Python": Oracle, "native": _native}


def use(implementation: str, patch: pytest.MonkeyPatch) -> None:
    """Let schemas be compiled for an implementation."""
    patch.setattr(compiling, "_native", IMPLEMENTATIONS[implementation])
