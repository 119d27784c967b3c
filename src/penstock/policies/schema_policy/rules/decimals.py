"""The decimals that Confluent adds to CEL: `decimal(…)` and `decimals.*`.

Sources: `DecimalUtils` and `BuiltinOverload` of Confluent's rules for Java. In CEL, a decimal is
the message `confluent.type.Decimal`; here it is calculated with by Python's `decimal`.
"""

from __future__ import annotations

import decimal
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME: Final = "confluent.type.Decimal"
_DIGITS_MOST: Final = 1000
_WRITTEN: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_EXACT: Final = decimal.Context(
    prec=_DIGITS_MOST,
    Emin=-_DIGITS_MOST,
    Emax=_DIGITS_MOST,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.DivisionByZero],
)
"""Numbers with more digits have no result; Java's has no bound."""
_DIVIDING: Final = decimal.Context(
    prec=38,
    rounding=decimal.ROUND_HALF_UP,
    Emin=-_DIGITS_MOST,
    Emax=_DIGITS_MOST,
    traps=[decimal.InvalidOperation, decimal.Overflow, decimal.DivisionByZero],
)


def make_file() -> Any:
    """Return the file `confluent/type/decimal.proto`, for a pool that has no such message."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/confluent_decimal.proto", package="confluent.type", syntax="proto3"
    )
    message = file.message_type.add(name="Decimal")
    for number, name, kind in (
        (1, "value", kinds.TYPE_BYTES),
        (2, "precision", kinds.TYPE_UINT32),
        (3, "scale", kinds.TYPE_INT32),
    ):
        message.field.add(name=name, number=number, type=kind, label=1)
    return file


def _make_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(make_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(NAME))


_MESSAGE: Final = _make_class()


def of_bytes(unscaled: bytes, scale: int) -> Any:
    """Return a decimal of its unscaled number in two's complement, as Avro has it."""
    if abs(scale) > _DIGITS_MOST or len(unscaled) > _DIGITS_MOST:
        raise ValueError("the decimal is too large")
    return _MESSAGE(value=bytes(unscaled), scale=scale)


def to_message(number: Decimal) -> Any:
    """Return a decimal as CEL has it."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or max(abs(exponent), len(digits)) > _DIGITS_MOST:
        raise ValueError("the decimal is too large")
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    size = unscaled.bit_length() // 8 + 1
    return _MESSAGE(value=unscaled.to_bytes(size, "big", signed=True), scale=-exponent)


def to_number(message: Any) -> Decimal:
    """Return a decimal that can be calculated with."""
    value = message.value
    if abs(message.scale) > _DIGITS_MOST or len(value) > _DIGITS_MOST:
        raise ValueError("the decimal is too large")
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-message.scale, _EXACT)


def of_text(text: str) -> Any:
    """Return the decimal that a text is; `BigDecimal` takes neither spaces nor `_` nor `NaN`."""
    if len(text) > _DIGITS_MOST or not _WRITTEN.fullmatch(text):
        raise ValueError("no decimal")
    return to_message(Decimal(text))


def of_number(number: float) -> Any:
    """Return the decimal of a number, a double as the shortest text that means it."""
    return of_text(repr(number))


def to_text(message: Any) -> str:
    """Return a decimal as `BigDecimal.toPlainString` writes it."""
    return f"{to_number(message):f}"


def to_double(message: Any) -> float:
    """Return the double that is next to a decimal."""
    return float(to_number(message))


def _compared(holds: Callable[[Decimal, Decimal], bool]) -> Callable[[Any, Any], bool]:
    return lambda first, second: holds(to_number(first), to_number(second))


def _calculated(calculate: Callable[..., Decimal]) -> Callable[..., Any]:
    return lambda *arguments: to_message(calculate(*map(to_number, arguments)))


def _scaled(rounding: str, *, widens: bool = True) -> Callable[..., Any]:
    """Return the function that sets a decimal's scale, 0 by default, as `BigDecimal.setScale`."""

    def scale_to(message: Any, scale: int = 0) -> Any:
        number = to_number(message)
        if abs(scale) > _DIGITS_MOST:
            raise ValueError("the scale is too large")
        if not widens and scale >= message.scale:
            return message
        context = decimal.Context(prec=2 * _DIGITS_MOST, traps=[decimal.InvalidOperation])
        return to_message(number.quantize(Decimal(1).scaleb(-scale), rounding, context))

    return scale_to


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "decimals.eq": _compared(lambda first, second: first == second),
    "decimals.lt": _compared(lambda first, second: first < second),
    "decimals.le": _compared(lambda first, second: first <= second),
    "decimals.gt": _compared(lambda first, second: first > second),
    "decimals.ge": _compared(lambda first, second: first >= second),
}
OF_TWO: Final[Mapping[str, Callable[..., Any]]] = {
    "decimals.add": _calculated(_EXACT.add),
    "decimals.sub": _calculated(_EXACT.subtract),
    "decimals.mul": _calculated(_EXACT.multiply),
    "decimals.div": _calculated(_DIVIDING.divide),
    "decimals.mod": _calculated(_EXACT.remainder),
    "decimals.greatest": _calculated(max),
    "decimals.least": _calculated(min),
}
OF_ONE: Final[Mapping[str, Callable[..., Any]]] = {
    "decimals.sqrt": _calculated(_DIVIDING.sqrt),
    "decimals.neg": _calculated(_EXACT.minus),
    "decimals.abs": _calculated(_EXACT.abs),
    "decimals.round": _scaled(decimal.ROUND_HALF_UP),
    "decimals.trunc": _scaled(decimal.ROUND_DOWN, widens=False),
    "decimals.floor": _scaled(decimal.ROUND_FLOOR),
    "decimals.ceil": _scaled(decimal.ROUND_CEILING),
}
OF_SCALE: Final = ("decimals.round", "decimals.trunc")
"""Those of `OF_ONE` that may get a scale as well."""


def sign(message: Any) -> int:
    """Return -1, 0 or 1."""
    number = to_number(message)
    return (number > 0) - (number < 0)
