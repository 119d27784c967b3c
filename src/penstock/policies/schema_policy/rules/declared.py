"""The functions that rules have besides CEL's own, declared for cel-expr-python."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pool, timestamp_pb2

from penstock.policies.schema_policy.rules import decimals, timestamps
from penstock.policies.schema_policy.rules.functions import FUNCTIONS
from penstock.policies.schema_policy.rules.mixed_numbers import of_whole_numbers
from penstock.policies.schema_policy.rules.whole_match import FUNCTION as MATCHES_WHOLE
from penstock.policies.schema_policy.rules.whole_match import matches_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PREFIX: Final = "penstock."
"""Stands in front of a function of CEL where it gets other arguments than CEL's own takes."""


def pool_with_decimals(pool: Any = None) -> Any:
    """Return a pool of descriptors that has decimals, a new pool if none is given."""
    if pool is None:
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    try:
        pool.FindMessageTypeByName(decimals.NAME)
    except KeyError:
        pool.Add(decimals.make_file())
    return pool


def declared(cel: Any) -> list[Any]:
    """Return the declarations.

    Args:
        cel: The module `cel_expr_python.cel`.
    """
    numbers = count()
    kinds = cel.Type
    number = kinds(decimals.NAME)
    text, integer, instant, truth = kinds.STRING, kinds.INT, kinds.TIMESTAMP, kinds.BOOL

    def overload(
        function: Callable[..., Any], returns: Any, *parameters: Any, is_member: bool = False
    ) -> Any:
        return cel.Overload(
            f"penstock_{next(numbers)}", return_type=returns, parameters=list(parameters),
            is_member=is_member, impl=function,
        )  # fmt: skip

    functions: dict[str, Sequence[Any]] = {
        **{
            name: [overload(function, truth, text, is_member=True)]
            for name, function in FUNCTIONS.items()
        },
        MATCHES_WHOLE: [
            overload(matches_whole, truth, text, text),
            overload(matches_whole, truth, text, text, is_member=True),
        ],
        "decimal": [
            overload(decimals.of_text, number, text),
            *(
                overload(decimals.of_number, number, kind)
                for kind in (integer, kinds.UINT, kinds.DOUBLE)
            ),
            overload(lambda argument: argument, number, number),
            overload(decimals.of_bytes, number, kinds.BYTES, integer),
        ],
        **{
            name: [overload(function, truth, number, number)]
            for name, function in decimals.COMPARISONS.items()
        },
        **{
            name: [overload(function, number, number, number)]
            for name, function in decimals.OF_TWO.items()
        },
        **{
            name: [
                overload(function, number, number),
                *(
                    [overload(function, number, number, integer)]
                    if name in decimals.OF_SCALE
                    else []
                ),
            ]
            for name, function in decimals.OF_ONE.items()
        },
        "decimals.sign": [overload(decimals.sign, integer, number)],
        "timestamp.of": [
            overload(lambda argument: argument, instant, instant),
            overload(timestamps.of_text, instant, text),
            overload(timestamps.of_unit, instant, integer, text),
        ],
        f"{PREFIX}timestamp": [overload(timestamps.of_precision, instant, integer, integer)],
        **{
            name: [
                overload(function, kinds.DYN, left_kind, right_kind)
                for left_kind in (integer, kinds.UINT)
                for right_kind in (integer, kinds.UINT)
            ]
            for name, function in of_whole_numbers()
        },
        f"{PREFIX}string": [overload(decimals.to_text, text, number)],
        f"{PREFIX}double": [overload(decimals.to_double, kinds.DOUBLE, number)],
    }
    return [cel.FunctionDecl(name, overloads) for name, overloads in functions.items()]
