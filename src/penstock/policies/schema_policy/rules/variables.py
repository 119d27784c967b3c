"""What the variables of an expression hold."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from penstock.policies.schema_policy.rules.values import CelValue, size_of, to_cel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.policies.schema_policy.rules.work import Size


class Variables:
    """Values of variables, for one expression or several of one language.

    Each is made ready for CEL when the first expression reads it.
    """

    __slots__ = ("_activation", "_is_shared", "_originals", "_ready")

    def __init__(
        self,
        values: Mapping[str, Any],
        ready: Mapping[str, CelValue] | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        """Remember values.

        Args:
            values: By the names of their variables.
            ready: Others, which are ready already.
            is_shared: Whether several expressions read most of them; CEL then makes its own
                values of them once.
        """
        self._originals = values
        self._ready: dict[str, CelValue] = dict(ready or {})
        self._is_shared = is_shared
        self._activation: Any = None

    def read(self, names: Iterable[str], *, now: bool) -> tuple[dict[str, Any], int]:
        """Return some of them as CEL is given them, and at least how large they are together.

        Args:
            names: The variables that an expression reads.
            now: Whether it reads the time.

        Raises:
            EvaluationError: One of them cannot be given to CEL.
        """
        values: dict[str, Any] = {}
        weight = 0
        for name in names:
            value = self._of(name)
            if value is not None:
                values[name] = value[1]
                weight += value[2]
        if now:
            values["now"] = dt.datetime.now(dt.UTC)
        return values, weight

    def size(self, names: Iterable[str]) -> Size:
        """Return how large some of them are, exactly; this takes longer than `read`."""
        return size_of([value.original for value in map(self._of, names) if value is not None])

    def activation(self, environment: Any) -> Any:
        """Return all of them for the expressions of a language; None where one alone reads them."""
        if not self._is_shared:
            return None
        if self._activation is None:
            self._activation = environment.Activation(self.read(self._originals, now=True)[0])
        return self._activation

    def _of(self, name: str) -> CelValue | None:
        cel_value = self._ready.get(name)
        if cel_value is None and name in self._originals:
            cel_value = self._ready[name] = to_cel(self._originals[name])
        return cel_value
