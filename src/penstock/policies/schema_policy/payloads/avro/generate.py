"""The fast way to judge a payload: Python code that is made for a schema.

It steps over a payload without making values, which takes about as long as fastavro takes to make
them, or less. fastavro's own yes would not do: it takes negative indexes of enums and unions as
Python does, any byte for a boolean, any number of bytes for a number, and it ends the process at
some thousand levels. Whatever the code raises is no answer: `walk.py` has one. Its yes is
that of `walk.py`, and never given where that has an objection.

No text of a schema gets into the code, numbers alone do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.policies.schema_policy.payloads.avro import numbers
from penstock.policies.schema_policy.payloads.avro.types import MAX_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.payloads.avro.types import AvroType

MAX_GENERATED: Final = 5000
"""The most fields, branches and types for which there is a fast way."""
_MAX_INDENTATION: Final = 10
"""Deeper code stands in a function of its own: CPython has limits, of 20 loops the lowest."""
_MAX_BRANCHES: Final = 16
"""Unions of more branches have a table of functions."""
_ONE_BYTE: Final = 64
"""Numbers below it have one byte."""


def generate(root: AvroType) -> Callable[..., bool] | None:
    """Return the fast way for a schema.

    Returns:
        A function of bytes, and of where in them the payload starts (0 unless given), that
        returns True where it fits, whatever it raises or returns otherwise being no answer; None
        where the schema is too large for it.
    """
    uses = _uses(root)
    if uses is None:
        return None
    source = _Generator(uses).source(root)
    names: dict[str, Any] = {
        name: getattr(numbers, name)
        for name in (
            "read_length",
            "read_block",
            "skip_int",
            "skip_long",
            "skip_string",
        )
    }
    exec(compile(source, "<avro>", "exec", dont_inherit=True), names)  # noqa: S102 - see above
    fits: Callable[..., bool] = names["fits"]
    return fits


def _uses(root: AvroType) -> dict[int, int] | None:
    """Return how often each type is used, by identity; None where there are too many."""
    uses = {id(root): 1}
    waiting = [root]
    seen = 0
    while waiting:
        for inner in waiting.pop().inner:
            seen += 1
            if seen > MAX_GENERATED:
                return None
            if id(inner) not in uses:
                uses[id(inner)] = 0
                waiting.append(inner)
            uses[id(inner)] += 1
    return uses


class _Generator:
    """Writes functions `f0`, `f1`... and tables of them, `t0`, `t1`...

    In them `d` is the payload, `p` the position, `level` how many records, arrays and maps there
    are around what a function reads.
    """

    def __init__(self, uses: dict[int, int]) -> None:
        self._uses = uses
        self._numbers: dict[int, int] = {}
        self._waiting: list[AvroType] = []
        self._tables: list[str] = []
        self._lines: list[str] = []
        self._deepest = 0
        self._variables = 0

    def source(self, root: AvroType) -> str:
        body = self._body(root)
        functions = [f"def fits(d, p=0):\n level = 0\n{body}\n return p == len(d)"]
        while self._waiting:
            schema = self._waiting.pop()
            body = self._body(schema)
            functions.append(
                f"def f{self._numbers[id(schema)]}(d, p, level):\n"
                f" if level > {MAX_LEVELS - self._deepest}: raise ValueError\n{body}\n return p"
            )
        return "\n".join([*functions, *self._tables])

    def _body(self, schema: AvroType) -> str:
        self._lines = []
        self._deepest = self._variables = 0
        self._inline(schema, " ", 0)
        if self._deepest > MAX_LEVELS:
            self._lines = [" raise ValueError"]
        return "\n".join(self._lines) or " pass"

    def _value(self, schema: AvroType, indentation: str, level: int) -> None:
        """Write the code for a value: here, or in a function of its own that is called here."""
        if (
            schema.size is None
            and schema.inner
            and (self._uses[id(schema)] > 1 or len(indentation) > _MAX_INDENTATION)
        ):
            self._lines.append(f"{indentation}p = {self._function(schema)}(d, p, level + {level})")
        else:
            self._inline(schema, indentation, level)

    def _function(self, schema: AvroType) -> str:
        number = self._numbers.get(id(schema))
        if number is None:
            number = self._numbers[id(schema)] = len(self._numbers)
            self._waiting.append(schema)
        return f"f{number}"

    def _inline(self, schema: AvroType, indentation: str, level: int) -> None:
        if schema.size is not None:
            lines = [f"p += {schema.size}"] if schema.size else []
        elif schema.kind == "record":
            self._record(schema, indentation, level + 1)
            return
        elif schema.kind in {"array", "map"}:
            self._blocks(schema, indentation, level + 1)
            return
        elif schema.kind == "union":
            self._union(schema, indentation, level)
            return
        elif schema.kind == "enum":
            lines = self._enum(len(schema.names))
        else:
            lines = _SIMPLE[schema.kind]
        self._lines += (indentation + line for line in lines)

    def _record(self, schema: AvroType, indentation: str, level: int) -> None:
        self._deepest = max(self._deepest, level)
        known = 0
        for inner in schema.inner:
            if inner.size is not None:
                known += inner.size
                continue
            if known:
                self._lines.append(f"{indentation}p += {known}")
                known = 0
            self._value(inner, indentation, level)
        if known:
            self._lines.append(f"{indentation}p += {known}")

    def _blocks(self, schema: AvroType, indentation: str, level: int) -> None:
        self._deepest = max(self._deepest, level)
        item = schema.inner[0]
        count = f"n{self._variables}"
        end = f"e{self._variables}"
        self._variables += 1
        if schema.kind == "array" and item.size == 0:
            # Items without bytes are rare, and counted over the whole payload: by walk.py.
            self._lines += (f"{indentation}if d[p]: raise ValueError", f"{indentation}p += 1")
            return
        self._lines += (
            indentation + line
            for line in (
                "while True:",
                f" {end} = 0",
                f" {count} = d[p]",
                f" if {count} & 129: {count}, p, {end} = read_block(d, p)",
                f" else: {count} >>= 1; p += 1",
                f" if not {count}: break",
            )
        )
        if schema.kind == "array" and item.size is not None:
            self._lines.append(f"{indentation} p += {count} * {item.size}")
        else:
            self._lines.append(f"{indentation} for _ in range({count}):")
            if schema.kind == "map":
                self._lines += (f"{indentation}  {line}" for line in _SIMPLE["string"])
            self._value(item, indentation + "  ", level)
        self._lines += (f"{indentation} if {end} and p != {end}: raise ValueError",)
        # A last block of no items may say how long it is, too.
        self._lines.append(f"{indentation}if {end} and p != {end}: raise ValueError")

    def _union(self, schema: AvroType, indentation: str, level: int) -> None:
        branches = schema.inner
        if len(branches) > _MAX_BRANCHES:
            table = f"t{len(self._tables)}"
            functions = [self._function(branch) for branch in branches]
            self._tables.append(f"{table} = ({', '.join(functions)})")
            self._lines += (
                f"{indentation}i, p = read_length(d, p)",
                f"{indentation}p = {table}[i](d, p, level + {level})",
            )
            return
        self._lines += (f"{indentation}b = d[p]", f"{indentation}p += 1")
        for index, branch in enumerate(branches):
            self._lines.append(f"{indentation}{'el' if index else ''}if b == {2 * index}:")
            before = len(self._lines)
            self._value(branch, indentation + " ", level)
            if len(self._lines) == before:
                self._lines.append(f"{indentation} pass")
        otherwise = "else: " if branches else ""
        self._lines.append(f"{indentation}{otherwise}raise ValueError")

    def _enum(self, count: int) -> list[str]:
        if count > _ONE_BYTE:
            return ["i, p = read_length(d, p)", f"if i >= {count}: raise ValueError"]
        return ["b = d[p]", f"if b & 1 or b >= {2 * count}: raise ValueError", "p += 1"]


def _number(longest: int, function: str) -> list[str]:
    steps = [f"elif d[p + {more}] < 128: p += {more + 1}" for more in range(1, longest)]
    return ["if d[p] < 128: p += 1", *steps, f"else: p = {function}(d, p)"]


_SIMPLE: Final = {
    "boolean": ["if d[p] > 1: raise ValueError", "p += 1"],
    "int": _number(4, "skip_int"),
    "long": _number(9, "skip_long"),
    "bytes": [
        "b = d[p]",
        "if b & 129: b, p = read_length(d, p); p += b",
        "else: p += 1 + (b >> 1)",
    ],
    "string": [
        "b = d[p]",
        "if b & 129: p = skip_string(d, p)",
        "else:",
        " q = p + 1 + (b >> 1)",
        " str(d[p + 1:q], 'utf-8')",
        " p = q",
    ],
}
