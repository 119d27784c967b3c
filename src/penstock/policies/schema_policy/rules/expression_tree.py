"""What a CEL expression may do: bounds found in its tree, before it is ever evaluated.

CEL has no loop without an end, and Google's C++ ends loops after 10,000 steps of an evaluation
altogether. One step can still be dear: it may copy, search or compare a whole value. The bounds
here make the work of an evaluation grow with the size of the value, or, where every item meets
the whole value, keep that to small values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES_MOST: Final = 400
"""Operations, names and constants of an expression, after its macros are written out."""
_NESTED_MOST: Final = 2
_LOOPS_MOST: Final = 10
_CONCATENATIONS_MOST: Final = 16
_REFUSED: Final = {
    "replace": "replace makes values grow",
    "join": "join makes values grow",
    "format": "format makes values grow",
    "quote": "quote makes values grow",
    "strings.quote": "quote makes values grow",
}
_COPYING: Final = frozenset(
    {
        "string", "bytes", "lowerAscii", "upperAscii", "substring", "trim", "reverse", "split",
        "charAt",
    }
)  # fmt: skip
_CHEAP: Final = frozenset(
    {
        "_&&_", "_||_", "!_", "_?_:_", "@not_strictly_false", "__not_strictly_false__",
        "_+_", "_-_", "_*_", "_/_", "_%_", "-_",
    }
)  # fmt: skip
_COMPARING: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_SEARCHING: Final = frozenset({"contains", "indexOf", "lastIndexOf", "split"})
_RESULTS: Final = frozenset({"@result", "__result__"})
_NUMERIC: Final = frozenset({2, 3, 4})
"""`Type.PrimitiveType` of cel.expr: INT64, UINT64, DOUBLE."""


class Facts(NamedTuple):
    """What is found in an expression.

    Attributes:
        names: Of the variables that it reads.
        texts: Its string constants.
        patterns: The regular expressions of its `matches`.
        multiplies: Whether its work grows with the square of the value's size.
    """

    names: frozenset[str]
    texts: frozenset[str]
    patterns: frozenset[str]
    multiplies: bool


def examine(serialized: bytes) -> Facts:
    """Look through an expression that CEL has compiled.

    Args:
        serialized: What `Expression.serialize` returns.

    Raises:
        InvalidSchemaError: It could do more than is allowed; the text completes "its expression".
    """
    try:
        packed = any_pb2.Any.FromString(serialized)
        checked = _CHECKED.FromString(packed.value)
    except DecodeError:
        raise InvalidSchemaError("is nested too deeply") from None
    look = _Look(checked.type_map)
    look.at(checked.expr, ())
    return Facts(
        frozenset(look.names), frozenset(look.texts), frozenset(look.patterns), look.multiplies
    )


class _Loop(NamedTuple):
    own: frozenset[str]
    result: str


class _Look:
    """One walk through a tree. `at` returns whether the part reads anything out of its loop."""

    def __init__(self, types: Any) -> None:
        self._types = types
        self._nodes = 0
        self._loops = 0
        self._concatenations = 0
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.patterns: set[str] = set()
        self.multiplies = False

    def at(self, expression: Any, loops: Sequence[_Loop]) -> bool:
        self._nodes += 1
        if self._nodes > NODES_MOST:
            raise InvalidSchemaError(f"has more than {NODES_MOST} parts")
        kind = expression.WhichOneof("kind")
        if kind == "const":
            if expression.const.WhichOneof("kind") == "string":
                self.texts.add(expression.const.string)
            return False
        if kind == "ident":
            return self._name(expression.ident.name, loops)
        if kind == "select":
            return self.at(expression.select.operand, loops)
        if kind == "call":
            return self._call(expression, loops)
        if kind == "loop":
            return self._loop(expression.loop, loops)
        if kind in ("list", "struct"):
            return self._literal(expression, loops)
        raise InvalidSchemaError("has a part that is not known")

    def _name(self, name: str, loops: Sequence[_Loop]) -> bool:
        if name in _RESULTS:
            raise InvalidSchemaError("reads the result of a loop while it is made")
        self.names.add(name)
        return bool(loops) and name not in loops[-1].own

    def _literal(self, expression: Any, loops: Sequence[_Loop]) -> bool:
        if expression.WhichOneof("kind") == "list":
            inner = list(expression.list.elements)
        else:
            inner = [
                part
                for entry in expression.struct.entries
                for part in (entry.key, entry.value)
                if part.WhichOneof("kind")
            ]
        if loops and any(part.WhichOneof("kind") != "const" for part in inner):
            raise InvalidSchemaError("makes lists or maps inside a loop")
        outside = [self.at(part, loops) for part in inner]
        return any(outside)

    def _call(self, expression: Any, loops: Sequence[_Loop]) -> bool:
        call = expression.call
        name = call.function
        if name in _REFUSED:
            raise InvalidSchemaError(f"calls {name}, which is not allowed: {_REFUSED[name]}")
        parts = [call.target] if call.HasField("target") else []
        parts.extend(call.args)
        if loops and parts and parts[0].ident.name == loops[-1].result:
            return self._gathered(name, parts, loops)
        outside = [self.at(part, loops) for part in parts]
        self._weigh(expression, name, parts, outside, in_loop=bool(loops))
        return any(outside)

    def _gathered(self, name: str, parts: Sequence[Any], loops: Sequence[_Loop]) -> bool:
        """Look at how a macro gathers its result: `result + [part]`, `result || part`."""
        self._nodes += 2
        for part in parts[1:]:
            if part.WhichOneof("kind") == "ident" and part.ident.name in _RESULTS:
                continue
            if name == "_+_" and part.WhichOneof("kind") == "list":
                for element in part.list.elements:
                    if self.at(element, loops):
                        raise InvalidSchemaError(
                            "has a map whose results read more than the item itself"
                        )
            else:
                self.at(part, loops)
        return False

    def _weigh(
        self,
        expression: Any,
        name: str,
        parts: Sequence[Any],
        outside: Sequence[bool],
        *,
        in_loop: bool,
    ) -> None:
        if name == "matches":
            if len(parts) < 2 or parts[1].const.WhichOneof("kind") != "string":
                raise InvalidSchemaError("calls matches with a pattern that is not a constant")
            self.patterns.add(parts[1].const.string)
        if name in _SEARCHING and any(part.WhichOneof("kind") != "const" for part in parts[1:]):
            self.multiplies = True
        if name == "_+_" and not self._is_numeric(expression.id):
            self._add(in_loop=in_loop)
        if any(outside):
            self._meet(name, outside)

    def _meet(self, name: str, outside: Sequence[bool]) -> None:
        """Look at a call that each item of a loop makes with more than the item."""
        if name in _COPYING:
            raise InvalidSchemaError(
                f"calls {name} inside a loop for what is not an item of the loop"
            )
        if name in _COMPARING:
            self.multiplies |= all(outside)
        elif name == "_[_]":
            self.multiplies |= outside[1]
        elif name not in _CHEAP:
            self.multiplies = True

    def _add(self, *, in_loop: bool) -> None:
        if in_loop:
            raise InvalidSchemaError(
                "adds inside a loop what may be texts or lists; "
                "for numbers, write int(…) or double(…) around them"
            )
        self._concatenations += 1
        if self._concatenations > _CONCATENATIONS_MOST:
            raise InvalidSchemaError(
                f"adds what may be texts or lists more than {_CONCATENATIONS_MOST} times"
            )

    def _is_numeric(self, identity: int) -> bool:
        found = self._types.get(identity)
        return found is not None and (
            found.primitive in _NUMERIC or found.well_known in (2, 3)  # TIMESTAMP, DURATION
        )

    def _loop(self, loop: Any, loops: Sequence[_Loop]) -> bool:
        self._loops += 1
        if self._loops > _LOOPS_MOST:
            raise InvalidSchemaError(f"has more than {_LOOPS_MOST} loops")
        if len(loops) >= _NESTED_MOST:
            raise InvalidSchemaError(f"has loops nested more than {_NESTED_MOST} deep")
        if loop.accu_var not in _RESULTS:
            raise InvalidSchemaError("has a loop that is not known")
        outside = self.at(loop.iter_range, loops)
        if outside:
            self.multiplies = True  # the same items again for each item of the outer loop
        own = frozenset(name for name in (loop.iter_var, loop.iter_var2) if name)
        inner = (*loops, _Loop(own, loop.accu_var))
        for part in (loop.accu_init, loop.loop_condition, loop.loop_step):
            self._step(part, inner)
        return outside or self._reads_beyond(loop, loops)

    def _step(self, part: Any, loops: Sequence[_Loop]) -> None:
        """Look at a part of a loop. Only a macro's own parts name the result by itself."""
        kind = part.WhichOneof("kind")
        is_result = kind == "ident" and part.ident.name == loops[-1].result
        if is_result or (kind == "list" and not part.list.elements):
            self._nodes += 1
        elif kind == "call" and part.call.function in {
            "_?_:_", "@not_strictly_false", "__not_strictly_false__", "!_",
        }:  # fmt: skip
            self._nodes += 1
            for argument in part.call.args:
                self._step(argument, loops)
        else:
            self.at(part, loops)

    def _reads_beyond(self, loop: Any, loops: Sequence[_Loop]) -> bool:
        """Return whether an inner loop reads what neither it nor the loop around it has."""
        if not loops:
            return False
        own = loops[-1].own | {loop.iter_var, loop.iter_var2} | _RESULTS
        return any(name not in own for name in _names_in(loop.loop_step))


def _names_in(expression: Any) -> set[str]:
    names = set()
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        kind = found.WhichOneof("kind")
        if kind == "ident":
            names.add(found.ident.name)
        elif kind == "select":
            waiting.append(found.select.operand)
        elif kind == "call":
            waiting.extend(found.call.args)
            if found.call.HasField("target"):
                waiting.append(found.call.target)
        elif kind == "list":
            waiting.extend(found.list.elements)
        elif kind == "loop":
            waiting.extend((found.loop.iter_range, found.loop.loop_step))
    return names


def _make_checked() -> Any:
    """Return a class for the part of `cel.expr.CheckedExpr` that is looked at (cel-spec)."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/checked.proto", package="penstock.cel", syntax="proto3"
    )

    def message(name: str, *fields: tuple[str, int, Any], repeated: tuple[str, ...] = ()) -> Any:
        made = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = made.field.add(
                name=field_name, number=number, label=3 if field_name in repeated else 1
            )
            if isinstance(kind, str):
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".penstock.cel.{kind}"
            else:
                field.type = kind
        return made

    text, number = kinds.TYPE_STRING, kinds.TYPE_INT64
    message("Ident", ("name", 1, text))
    message("Select", ("operand", 1, "Expr"), ("field", 2, text))
    message(
        "Call",
        ("target", 1, "Expr"),
        ("function", 2, text),
        ("args", 3, "Expr"),
        repeated=("args",),
    )
    message("List", ("elements", 1, "Expr"), repeated=("elements",))
    message("Entry", ("key", 3, "Expr"), ("value", 4, "Expr"))
    message("Struct", ("entries", 2, "Entry"), repeated=("entries",))
    message(
        "Loop",
        ("iter_var", 1, text),
        ("iter_range", 2, "Expr"),
        ("accu_var", 3, text),
        ("accu_init", 4, "Expr"),
        ("loop_condition", 5, "Expr"),
        ("loop_step", 6, "Expr"),
        ("iter_var2", 8, text),
    )
    constant = message(
        "Constant",
        ("null", 1, number),
        ("bool", 2, kinds.TYPE_BOOL),
        ("int", 3, number),
        ("uint", 4, kinds.TYPE_UINT64),
        ("double", 5, kinds.TYPE_DOUBLE),
        ("string", 6, text),
        ("bytes", 7, kinds.TYPE_BYTES),
    )
    expression = message(
        "Expr",
        ("id", 2, number),
        ("const", 3, "Constant"),
        ("ident", 4, "Ident"),
        ("select", 5, "Select"),
        ("call", 6, "Call"),
        ("list", 7, "List"),
        ("struct", 8, "Struct"),
        ("loop", 9, "Loop"),
    )
    for of_one_kind in (constant, expression):
        of_one_kind.oneof_decl.add(name="kind")
        for field in of_one_kind.field:
            if field.name != "id":
                field.oneof_index = 0
    message("Type", ("primitive", 3, number), ("well_known", 5, number))
    checked = message(
        "Checked", ("type_map", 3, "Checked.TypeMapEntry"), ("expr", 4, "Expr"),
        repeated=("type_map",),
    )  # fmt: skip
    entry = checked.nested_type.add(name="TypeMapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=number, label=1)
    entry.field.add(
        name="value", number=2, type=kinds.TYPE_MESSAGE, label=1, type_name=".penstock.cel.Type"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("penstock.cel.Checked"))


_CHECKED: Final = _make_checked()
