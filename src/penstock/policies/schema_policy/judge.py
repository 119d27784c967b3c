"""Judges the keys or the values of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policy import UndecidableException

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema
    from penstock.policies.schema_policy.rules.rules import SchemaRules
    from penstock.policy import BatchProxy, Header

    Column = Sequence[bytes | None]
    Headers = Sequence[Sequence[Header]]


class PreparedColumn(Protocol):
    """Keys or values, and all that is needed to judge them."""

    def objections(self) -> Iterable[tuple[int, str]]:
        """Yield the positions of refused records, each with a message."""
        ...


class SideJudge(Protocol):
    """The judge of one side of a topic's records: their keys, or their values."""

    @property
    def reads_headers(self) -> bool:
        """Whether an id may be in a header."""
        ...

    def prepared_as_last(self, batch: BatchProxy) -> PreparedColumn | None:
        """Do `prepared` for a batch with the schema and rules of the last batch.

        Nothing is looked up, and no column is made.

        Returns:
            None if that is not possible, or if one of its keys or values is null.
        """
        ...

    def prepared(self, column: Column, headers: Headers) -> PreparedColumn:
        """Look up everything that is needed to judge these.

        Args:
            column: Keys or values. Nulls are passed over.
            headers: Of the same records; empty unless `reads_headers`.

        Raises:
            RetriableException: It cannot be looked up now.
        """
        ...

    def load(self) -> None:
        """Look up everything that later records will probably need.

        Raises:
            RetriableException: It cannot be looked up now.
        """
        ...

    def describe(self) -> Iterable[str]:
        """Yield lines that describe the schemas and rules.

        Raises:
            RetriableException: It cannot be looked up now.
        """
        ...


def side_of(*, is_key: bool) -> str:
    """Return the side, as messages name it."""
    return "key" if is_key else "value"


def against_rules(
    rules: SchemaRules,
    schema: CompiledSchema,
    payloads: Sequence[bytes],
    unfit: Container[int],
    start: int = 0,
) -> Iterator[tuple[int, str]]:
    """Yield which payloads are against rules, and how, apart from those that do not fit.

    Args:
        schema: The schema that they are of.
        payloads: In each of these is a payload.
        unfit: The positions of those that do not fit the schema.
        start: Where payloads start in them.

    Raises:
        InvalidSchemaError: A rule cannot be used.
    """
    for index, payload in enumerate(payloads):
        if index not in unfit:
            objection = rules.objection(schema.decode(payload[start:]))
            if objection is not None:
                yield index, objection


class FileJudge:
    """Judges by a schema in a file: the complete value is the payload."""

    reads_headers = False

    def __init__(
        self, compiled: CompiledSchema, name: str, *, is_key: bool, rules: SchemaRules | None = None
    ) -> None:
        """Remember the schema.

        Args:
            name: Of its file.
            is_key: Whether keys are judged, or values.
            rules: Those within it, where they are judged by.
        """
        self._compiled_schema = compiled
        self._rules = None if rules is None or rules.is_empty else rules
        side = side_of(is_key=is_key)
        self._name = name
        self._describes = f"{side}: {name}" + ("" if self._rules is None else ", and its rules")
        self._prefix = f"the {side} does not fit schema {name}: "

    def load(self) -> None:
        """Do nothing: the schema is loaded."""

    def describe(self) -> Iterable[str]:
        """Yield the lines of `SideJudge.describe`."""
        return (self._describes,)

    def prepared_as_last(self, batch: BatchProxy) -> None:
        """Return None: nothing begins with an id."""

    def prepared(self, column: Column, headers: Headers) -> PreparedColumn:
        """Return the column with the schema: nothing has to be looked up."""
        del headers
        return _ColumnOfFile(column, self, self._prefix)

    def objections(self, payloads: Sequence[bytes]) -> Sequence[tuple[int, str]]:
        """Return the positions of payloads that are refused, each with the reason.

        Raises:
            UndecidableException: A rule cannot be used.
        """
        refused = list(self._compiled_schema.objections(payloads))
        if self._rules is not None:
            unfit = {position for position, _ in refused}
            try:
                refused += against_rules(self._rules, self._compiled_schema, payloads, unfit)
            except InvalidSchemaError as error:
                raise UndecidableException(
                    f"the rules of schema {self._name} cannot be judged by: {error}"
                ) from None
        return refused


class _ColumnOfFile(NamedTuple):
    """Implements `PreparedColumn`.

    Attributes:
        column: Keys or values.
        judge: Judges the payloads.
        prefix: How messages begin.
    """

    column: Column
    judge: FileJudge
    prefix: str

    def objections(self) -> Iterator[tuple[int, str]]:
        positions: Sequence[int] = range(len(self.column))
        payloads = self.column
        if None in payloads:
            positions = [index for index, data in enumerate(self.column) if data is not None]
            payloads = [data for data in self.column if data is not None]
        for index, message in self.judge.objections(cast("Sequence[bytes]", payloads)):
            yield positions[index], self.prefix + message
