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

    __slots__ = ("_activation", "_given", "_is_shared", "_ready")

    def __init__(
        self,
        given: Mapping[str, Any],
        ready: Mapping[str, CelValue] | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        """Remember values.

        Args:
            given: By the names of their variables.
            ready: Others, which are ready already.
            is_shared: Whether several expressions read most of them; CEL then makes its own
                values of them once.
        """
        self._given = given
        self._ready: dict[str, CelValue] = dict(ready or {})
        self._is_shared = is_shared
        self._activation: Any = None

    def weight(self, names: Iterable[str]) -> int:
        """Return at least how many characters, bytes and items some of them have.

        Raises:
            EvaluationError: One cannot be given to CEL.
        """
        return sum(value.weight for value in map(self._of, names) if value is not None)

    def size(self, names: Iterable[str]) -> Size:
        """Return how large some of them are, exactly; this takes longer than `weight`."""
        return size_of([value.given for value in map(self._of, names) if value is not None])

    def activation(self, environment: Any, names: Iterable[str], *, now: bool) -> Any:
        """Return what a language's environment evaluates with.

        Args:
            environment: The language's.
            names: The variables that the expression reads.
            now: Whether it reads the time.

        Raises:
            EvaluationError: One of them cannot be given to CEL.
        """
        if self._is_shared:
            if self._activation is None:
                self._activation = environment.Activation(self._read(self._given, now=True))
            return self._activation
        return environment.Activation(self._read(names, now=now))

    def _read(self, names: Iterable[str], *, now: bool) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name in names:
            value = self._of(name)
            if value is not None:
                read[name] = value.value
        if now:
            read["now"] = dt.datetime.now(dt.UTC)
        return read

    def _of(self, name: str) -> CelValue | None:
        known = self._ready.get(name)
        if known is None and name in self._given:
            known = self._ready[name] = to_cel(self._given[name])
        return known
