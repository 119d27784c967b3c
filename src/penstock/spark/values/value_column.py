"""The column `value` of a table, if its type is a struct, an array or a map: values are parsed.

An accepted record whose value does not fit the column is refused then, so it becomes a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql import types as T  # noqa: N812

from penstock.configuration import ConfigurationError
from penstock.engine.verdict import Outcome
from penstock.jobs.locations import TABLE
from penstock.kafka.error_codes import INVALID_RECORD
from penstock.policies.decoded.errors import NotDecodedError, NotJsonError
from penstock.policies.decoded.json_texts import read_json
from penstock.policy import RetriableException
from penstock.spark.frames.arrow_records import ArrowRecords, runs
from penstock.spark.values.conversion import (
    OF_REQUIRED,
    REQUIRED,
    Conversion,
    conversion_of,
    has_required,
    wanted_of,
)
from penstock.spark.values.misfits import MisfitError, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from penstock.policies.decoded.readers import ValueReader
    from penstock.policies.decoded.wanted import Wanted
    from penstock.policy import Header

    ReaderOf = Callable[[str | None], ValueReader | None]

PARSED: Final = "parsed_value"
"""The column of a frame with the parsed value of each accepted record."""
_VALUE: Final = "value"
POLICY: Final = "table"
"""Named as the policy that refuses."""
_CHECKING: Final = frozenset({"delta"})
"""Formats that check NOT NULL of a field without a look at the structs that it is in."""
_NOT_OF_A_RECORD: Final = (RetriableException, MemoryError, OSError, ImportError)
_LENGTHS: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""What the metadata of a column has if its type limits lengths, which Spark shows as STRING."""


@dataclass(frozen=True)
class ValueColumn:
    """The column.

    Attributes:
        table: The table's name.
        required: Whether it is NOT NULL.
        checks_nulls: Whether the table refuses a null where a struct has a NOT NULL field.
    """

    table: str
    kind: T.DataType
    required: bool
    checks_nulls: bool = False

    @classmethod
    def of(cls, table: str, schema: T.StructType, using: str = "") -> Self | None:
        """Return the column of a table; None if its values are not parsed.

        Args:
            table: The table's name.

        Raises:
            ConfigurationError: No value can have its type.
        """
        for field in schema:
            if field.name.lower() != _VALUE:
                continue
            if isinstance(field.dataType, (T.StructType, T.ArrayType, T.MapType)):
                _check(table, field)
                return cls(table, field.dataType, not field.nullable, using in _CHECKING)
        return None

    @property
    def parsed(self) -> T.StructField:
        """The column of a frame with parsed values."""
        return T.StructField(PARSED, self._conversion.spark)

    def added_to(
        self, batch: pa.RecordBatch, reader_of: ReaderOf, topic: str | None = None
    ) -> pa.RecordBatch:
        """Return a batch with the parsed values of its accepted records.

        Args:
            batch: Kafka's columns and `verdict`. A value that does not fit changes its record's
                verdict.
            reader_of: Returns the reader of a topic's values; None for JSON.
            topic: The one topic of all records, or None.

        Raises:
            RetriableException: A schema cannot be looked up now.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        verdicts = columns["verdict"]
        outcomes = pc.struct_field(verdicts, "outcome")
        accepted = pc.equal(outcomes, Outcome.ACCEPTED.value).to_pylist()
        parsed: list[Any] = []
        misfits: dict[int, str] = {}
        rows = ArrowRecords(columns)
        for start, end, record_topic, _ in runs(topic or columns["topic"], columns["partition"]):
            some = rows.columns(start, end)
            reader = reader_of(record_topic)
            has_headers = reader is not None and reader.reads_headers
            headers = some.headers if has_headers else repeat(())
            for row, value, own in zip(range(start, end), some.values, headers, strict=False):
                parsed.append(None)
                if accepted[row]:
                    try:
                        parsed[row] = self._parsed(value, reader, own)
                    except (MisfitError, NotDecodedError) as error:
                        misfits[row] = str(error)
                    except _NOT_OF_A_RECORD:
                        raise
                    except Exception as error:  # else the record ends each attempt
                        misfits[row] = f"cannot be read ({type(error).__name__})"
        if misfits:
            columns["verdict"] = self._refused(verdicts, misfits)
        columns[PARSED] = pa.array(parsed, self._conversion.arrow)
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _parsed(
        self, value: bytes | None, reader: ValueReader | None, headers: Sequence[Header]
    ) -> Any:
        if value is not None:
            parsed_value = (
                _json(value) if reader is None else reader.read(value, headers, self.wanted)
            )
            if parsed_value is None:
                raise MisfitError(f"is {kind_of(parsed_value)}, not {self._name}")
            return self._conversion.convert(parsed_value)
        if self.required:
            raise MisfitError(REQUIRED)
        if self.checks_nulls and has_required(self.kind):
            raise MisfitError(OF_REQUIRED)
        return None

    def _refused(self, verdicts: pa.Array, misfits: dict[int, str]) -> pa.Array:
        """Return verdicts, in which those of values that do not fit are replaced."""
        verdict_rows = verdicts.to_pylist()
        for row, text in misfits.items():
            verdict_rows[row] = {
                "outcome": Outcome.REFUSED.value,
                "policy": POLICY,
                "code": INVALID_RECORD,
                "message": f"the value does not fit table {self.table}: {text}",
            }
        return pa.array(verdict_rows, verdicts.type)

    @cached_property
    def wanted(self) -> Wanted:
        """The fields that it has."""
        return wanted_of(self.kind)

    @property
    def _name(self) -> str:
        return self.kind.typeName().upper()

    @cached_property
    def _conversion(self) -> Conversion:
        return conversion_of(self.kind, checks_nulls=self.checks_nulls)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _json(value: bytes) -> Any:
    try:
        return read_json(value)
    except NotJsonError as error:
        # All values of a topic may be of another format.
        raise MisfitError(f"{error}, and no policy of its topic reads it by a schema") from None


def with_value(frame: DataFrame, column: ValueColumn | None) -> DataFrame:
    """Return a frame with the `value` that a table gets.

    Args:
        frame: Judged records.
        column: The table's column; None if it has the bytes.
    """
    return frame if column is None else frame.withColumn(_VALUE, F.col(PARSED))


def _check(table: str, field: T.StructField) -> None:
    if _LENGTHS in field.metadata:
        raise ConfigurationError(
            f"{TABLE}{table}: {_VALUE} has a CHAR or VARCHAR, whose length is not checked before "
            "records are written: use STRING"
        )
    try:
        conversion_of(field.dataType)
    except ValueError as error:
        raise ConfigurationError(
            f"{TABLE}{table}: {error}, which no value can be parsed to: change its type, or use "
            f"BINARY for {_VALUE}, which keeps the bytes"
        ) from None
