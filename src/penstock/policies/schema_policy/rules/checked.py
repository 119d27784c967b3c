"""An expression that CEL has parsed and checked, as a tree of Python.

Source: `cel.expr.CheckedExpr` and `ParsedExpr` of cel-spec (`checked.proto`, `syntax.proto`), read
by the numbers of their fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from penstock.policies.schema_policy.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NUMBERS: Final = frozenset({1, 2, 3, 4})
"""`Type.PrimitiveType` of cel.expr: BOOL, INT64, UINT64, DOUBLE."""
_INSTANTS: Final = frozenset({2, 3})
"""`Type.WellKnownType` of cel.expr: TIMESTAMP, DURATION."""

_TYPE_OF_PARSED: Final = "ParsedExpr"
"""The last part of the type's name of an expression that is not checked."""


class Constant(NamedTuple):
    """A literal; None for null."""

    value: str | bytes | float | None


class Name(NamedTuple):
    """A variable, of the expression or of a loop."""

    name: str


class Part(NamedTuple):
    """A field or key of something.

    Attributes:
        whole: What it is a part of.
        is_tested: Whether it is the argument of `has()`, not read.
    """

    whole: Tree
    name: str = ""
    is_tested: bool = False


class Call(NamedTuple):
    """A function or an operator.

    Attributes:
        function: Its name, such as `matches` or `_+_`.
        arguments: With the receiver in front.
        is_scalar: Whether the result is known to be a number, true, false or an instant.
    """

    function: str
    arguments: tuple[Tree, ...]
    is_scalar: bool


class Collection(NamedTuple):
    """A list, map or message that the expression makes."""

    parts: tuple[Tree, ...]


class Loop(NamedTuple):
    """What a macro such as `all` or `map` becomes: a step for each item, which makes a result."""

    names: tuple[str, ...]
    collection: Tree
    result_name: str
    start: Tree
    condition: Tree
    step: Tree
    result: Tree


Tree = Constant | Name | Part | Call | Collection | Loop


def read_tree(serialized: bytes) -> Tree:
    """Return the tree of an expression.

    Args:
        serialized: What `Expression.serialize` returns.

    Raises:
        InvalidSchemaError: It is nested too deeply; the text completes "its expression".
    """
    try:
        packed = any_pb2.Any.FromString(serialized)
        if packed.type_url.endswith(_TYPE_OF_PARSED):
            return _TreeReader({}).tree(_MESSAGES["Parsed"].FromString(packed.value).expr)
        checked = _MESSAGES["Checked"].FromString(packed.value)
        return _TreeReader(checked.type_map).tree(checked.expr)
    except (DecodeError, RecursionError):
        raise InvalidSchemaError("is nested too deeply") from None


def rewritten(serialized: bytes, function: str, change: Callable[[Any], None]) -> bytes:
    """Return an expression with some of its calls changed.

    Args:
        serialized: What `Expression.serialize` returns.
        function: The function that is called.
        change: Changes such a call: `cel.expr.Expr.Call`, with the arguments as `args`.
    """
    packed = any_pb2.Any.FromString(serialized)
    of_message = _MESSAGES["Parsed" if packed.type_url.endswith(_TYPE_OF_PARSED) else "Checked"]
    message = of_message.FromString(packed.value)  # keeps unknown fields
    for part in _messages_in(message.expr):
        if part.DESCRIPTOR.name == "Call" and part.function == function:
            change(part)
    packed.value = message.SerializeToString()
    return bytes(packed.SerializeToString())


def expressions_in(expression: Any) -> Iterator[Any]:
    """Yield an expression and its parts, each before the parts that it has.

    Args:
        expression: `cel.expr.Expr`.
    """
    return (part for part in _messages_in(expression) if part.DESCRIPTOR.name == "Expr")


def _messages_in(message: Any) -> Iterator[Any]:
    """Yield a message and those within it, each before its parts, which may be changed then."""
    messages = [message]
    while messages:
        part = messages.pop()
        yield part
        for field, value in part.ListFields():
            if field.message_type is not None:
                messages.extend(value if hasattr(value, "extend") else (value,))


def parts_of(tree: Tree) -> tuple[Tree, ...]:
    """Return the parts of a part of a tree."""
    if isinstance(tree, Part):
        return (tree.whole,)
    if isinstance(tree, Call):
        return tree.arguments
    if isinstance(tree, Collection):
        return tree.parts
    if isinstance(tree, Loop):
        return (tree.collection, tree.start, tree.condition, tree.step, tree.result)
    return ()


def all_in(tree: Tree) -> Iterator[Tree]:
    """Yield a tree and all its parts."""
    trees = [tree]
    while trees:
        part = trees.pop()
        yield part
        trees.extend(parts_of(part))


def names_in(tree: Tree) -> frozenset[str]:
    """Return the names of the variables that are read, those of loops too."""
    return frozenset(part.name for part in all_in(tree) if isinstance(part, Name))


def texts_in(tree: Tree) -> frozenset[str]:
    """Return its string constants."""
    values = (part.value for part in all_in(tree) if isinstance(part, Constant))
    return frozenset(value for value in values if isinstance(value, str))


def patterns_in(tree: Tree, function: str) -> frozenset[str]:
    """Return the regular expressions of a function's calls that are constants."""
    lasts = (
        part.arguments[-1]
        for part in all_in(tree)
        if isinstance(part, Call) and part.function == function
    )
    values = (last.value for last in lasts if isinstance(last, Constant))
    return frozenset(value for value in values if isinstance(value, str))


class _TreeReader:
    def __init__(self, types: Any) -> None:
        self._types = types

    def tree(self, expression: Any) -> Tree:
        kind = expression.WhichOneof("kind")
        if kind == "const":
            constant = expression.const.WhichOneof("kind")
            value = None if constant in ("null", None) else getattr(expression.const, constant)
            return Constant(value)
        if kind == "ident":
            return Name(expression.ident.name)
        if kind == "select":
            select = expression.select
            return Part(self.tree(select.operand), select.field, select.test_only)
        if kind == "call":
            return self._call(expression)
        if kind == "loop":
            return self._loop(expression.loop)
        return self._collection(expression, kind)

    def _call(self, expression: Any) -> Call:
        call = expression.call
        arguments = [call.target] if call.HasField("target") else []
        arguments.extend(call.args)
        result_type = self._types.get(expression.id)
        is_scalar = result_type is not None and (
            result_type.primitive in _NUMBERS or result_type.well_known in _INSTANTS
        )
        return Call(call.function, tuple(map(self.tree, arguments)), is_scalar)

    def _loop(self, loop: Any) -> Loop:
        return Loop(
            tuple(name for name in (loop.iter_var, loop.iter_var2) if name),
            self.tree(loop.iter_range),
            loop.accu_var,
            self.tree(loop.accu_init),
            self.tree(loop.loop_condition),
            self.tree(loop.loop_step),
            self.tree(loop.result),
        )

    def _collection(self, expression: Any, kind: str) -> Collection:
        if kind == "list":
            return Collection(tuple(map(self.tree, expression.list.elements)))
        parts = (
            part
            for entry in expression.struct.entries
            for part in (entry.key, entry.value)
            if part.WhichOneof("kind")
        )
        return Collection(tuple(map(self.tree, parts)))


def _make_messages() -> Mapping[str, Any]:
    """Return classes for the parts of `CheckedExpr` and `ParsedExpr` that are read."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/checked.proto", package="penstock.cel", syntax="proto3"
    )

    def message(name: str, *fields: tuple[str, int, Any], repeated: tuple[str, ...] = ()) -> Any:
        message_type = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message_type.field.add(
                name=field_name, number=number, label=3 if field_name in repeated else 1
            )
            if isinstance(kind, str):
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".penstock.cel.{kind}"
            else:
                field.type = kind
        return message_type

    text, number = kinds.TYPE_STRING, kinds.TYPE_INT64
    message("Ident", ("name", 1, text))
    message("Select", ("operand", 1, "Expr"), ("field", 2, text), ("test_only", 3, kinds.TYPE_BOOL))
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
        ("result", 7, "Expr"),
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
    message("Parsed", ("expr", 2, "Expr"))
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
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"penstock.cel.{name}"))
        for name in ("Checked", "Parsed")
    }


_MESSAGES: Final = _make_messages()
PARSED: Final = _MESSAGES["Parsed"]
"""The class of an expression that is not checked."""
