"""Rules that a Protobuf schema declares with the options of `buf/validate/validate.proto`.

They are evaluated by protovalidate itself, as in Bufstream. It passes over an option of the rules
that is newer than itself, compiles a type's rules with its first message, and knows
types only by their names. So options are read here, the rules of all types are compiled with
the schema, and each schema has a separate validator.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    field_mask_pb2,
    message_factory,
    timestamp_pb2,
)
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.protobuf import buf_validate
from penstock.policies.schema_policy.payloads.protobuf.reach import fields_of
from penstock.policies.schema_policy.rules.program import reason_of
from penstock.policies.schema_policy.rules.rule_set import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.descriptor import Descriptor

_RULES: Final = 1159
"""The number of `(buf.validate.message)`, `.field` and `.oneof`."""
_PREDEFINED: Final = 1160
"""The number of `(buf.validate.predefined)`, of extensions that are rules themselves."""
_EXTENSIONS: Final = 1000
"""The first number of such an extension. protovalidate itself objects to unknown extensions."""
_BY_EXPRESSION: Final = frozenset({"cel", "cel_expression"})
_LITERAL: Final = re.compile(r'"([^"\\]*)"|\'([^\'\\]*)\'')
_INSTALL: Final = "rules of buf.validate need: pip install 'penstock-kafka[rules]'"


class _RuleTexts(NamedTuple):
    """The texts of the rules of a schema.

    Attributes:
        types: The messages that have rules.
        expressions: The expressions in CEL, by the ids of their rules.
        constants: Texts that are written there, so to show one shows nothing of a record.
    """

    types: list[Descriptor]
    expressions: dict[str, str]
    constants: set[str]


class MessageRules:
    """The rules of a schema that messages are judged by."""

    def __init__(self, declared: _RuleTexts) -> None:
        from protovalidate import (  # noqa: PLC0415 - an extra
            CompilationError,
            EvaluationError,
            Validator,
        )

        self._texts = declared
        self._not_compiled, self._without_result = CompilationError, EvaluationError
        self._validator = Validator()
        for message in declared.types:
            self._try(message)

    def objection(self, message: Any) -> str | None:
        """Return why a message breaks a rule, or None if it breaks none.

        Raises:
            InvalidSchemaError: A rule cannot be used.
        """
        try:
            violations = self._validator.collect_violations(message, fail_fast=True)
        except self._not_compiled as error:
            raise InvalidSchemaError(_unusable(error)) from None
        except self._without_result as error:
            return self._no_result(str(error))
        except (TypeError, UnicodeDecodeError):  # proto2 has strings that are no text
            return "its rules have no result: a string is not UTF-8"
        return self._reason_of_violation(violations[0].proto) if violations else None

    def _try(self, message: Descriptor) -> None:
        """Compile the rules of a type, so a wrong rule is found before the first record.

        Raises:
            InvalidSchemaError: A rule cannot be used.
        """
        try:
            self._validator.collect_violations(message_factory.GetMessageClass(message)())
        except self._without_result:  # of an empty message, which no record has to be
            return
        except Exception as error:
            raise InvalidSchemaError(_unusable(error)) from None

    def _no_result(self, text: str) -> str:
        rule = next((name for name in self._texts.expressions if _is_about(text, name)), None)
        if rule is None:
            return f"its rules have no result: {reason_of(text)}"
        return f'rule "{shorten(rule)}" has no result: {reason_of(text)}'

    def _reason_of_violation(self, violation: Any) -> str:
        place = _place(violation.field.elements if violation.field is not None else ())
        why = violation.message
        if self._is_by_expression(violation) and why not in self._texts.constants:
            why = self._texts.expressions.get(violation.rule_id, "its condition is not true")
        location = f" at {place}" if place else ""
        return f'rule "{shorten(violation.rule_id)}" failed{location}: {shorten(why)}'

    def _is_by_expression(self, violation: Any) -> bool:
        """Return whether the schema's author wrote the text, which may show a value."""
        if violation.rule is None:
            return violation.rule_id in self._texts.expressions
        return any(
            element.field_name in _BY_EXPRESSION or element.field_number >= _EXTENSIONS
            for element in violation.rule.elements
        )


def compile_message_rules(messages: Iterable[Descriptor]) -> MessageRules | None:
    """Compile the rules of messages, and of all that can be in them.

    Returns:
        None if there are none.

    Raises:
        InvalidSchemaError: A rule cannot be used; the text names it, and the reason.
        ValueError: protovalidate is not installed.
    """
    types = _reachable(messages)
    with_rules = {
        descriptor: options for descriptor in types if (options := list(_options_of(descriptor)))
    }
    if not with_rules:
        return None
    if buf_validate.serialized() is None:
        raise ValueError(_INSTALL)
    declared = _RuleTexts(list(with_rules), {}, set())
    for options in with_rules.values():
        for where, kind, data in options:
            _read(declared, where, kind, data)
    _read_predefined(declared, next(iter(with_rules)).file.pool)
    return MessageRules(declared)


def _reachable(messages: Iterable[Descriptor]) -> list[Descriptor]:
    descriptors: dict[str, Descriptor] = {}
    stack = list(messages)
    while stack:
        message = stack.pop()
        if message.full_name not in descriptors:
            descriptors[message.full_name] = message
            stack.extend(message.nested_types)
            stack.extend(field.message_type for field in fields_of(message) if field.message_type)
    return list(descriptors.values())


def _options_of(message: Descriptor) -> Iterator[tuple[str, str, bytes]]:
    """Yield the places of rules, their names, and the rules."""
    for kind, of_kind in (
        ("MessageRules", (message,)),
        ("FieldRules", fields_of(message)),
        ("OneofRules", message.oneofs),
    ):
        for owner in of_kind:
            data = _option(owner, _RULES)
            if data is not None:
                yield owner.full_name, kind, data


def _option(declared: Any, number: int) -> bytes | None:
    """Return an option as it is written, without the extensions that this process knows."""
    data = declared.GetOptions().SerializeToString()
    if not data:
        return None
    options = _NUMBERS[number].FromString(data)
    return bytes(options.option) if options.HasField("option") else None


def _read(declared: _RuleTexts, where: str, kind: str, data: bytes) -> None:
    try:
        rules = _messages()[kind].FromString(data)
    except DecodeError:
        raise InvalidSchemaError(f"{where} has rules of buf.validate that cannot be read") from None
    messages = [rules]
    while messages:
        message = messages.pop()
        name = message.DESCRIPTOR.name
        unknown = [field.field_number for field in UnknownFieldSet(message)]
        if any(number < _EXTENSIONS for number in unknown):
            raise InvalidSchemaError(
                f"{where} has a rule that the installed protovalidate does not know: "
                f"{name} {min(unknown)}"
            )
        if name == "Rule":
            _note(declared, message.id, message.expression, message.message)
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages.extend(value if field.is_repeated else (value,))
            elif field.name == "cel_expression":
                for text in value:
                    _note(declared, text, text, f'"{text}" returned false')


def _note(declared: _RuleTexts, name: str, expression: str, message: str) -> None:
    declared.expressions[name] = expression
    declared.constants.add(message)
    declared.constants.update(a or b for a, b in _LITERAL.findall(expression))


def _read_predefined(declared: _RuleTexts, pool: Any) -> None:
    """Read the rules that a schema adds to those of protovalidate: extensions of them."""
    for name in _messages():
        try:
            rules = pool.FindMessageTypeByName(f"buf.validate.{name}")
        except KeyError:
            continue
        for extension in pool.FindAllExtensions(rules) if rules.is_extendable else ():
            data = _option(extension, _PREDEFINED)
            if data is not None:
                _read(declared, extension.full_name, "PredefinedRules", data)


def _is_about(text: str, rule: str) -> bool:
    return text.startswith((f"error evaluating {rule}: ", f"expression {rule} outputs "))


def _place(elements: Iterable[Any]) -> str:
    """Return where a field is. Keys of maps are contents, so they are not in it."""
    place = ""
    for element in elements:
        place += f".{element.field_name}" if place else element.field_name
        if element.subscript is not None:
            is_item = element.subscript.field == "index"
            place += f"[{element.subscript.value}]" if is_item else "[*]"
    return place


def _unusable(error: Exception) -> str:
    return f"its rules of buf.validate: {shorten(str(error).partition(chr(10))[0])}"


@cache
def _messages() -> Mapping[str, Any]:
    """Return the classes of the messages that the installed protovalidate has, by their names."""
    pool = descriptor_pool.DescriptorPool()
    for module in (descriptor_pb2, duration_pb2, field_mask_pb2, timestamp_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(buf_validate.serialized())
    file = pool.FindFileByName(buf_validate.NAME)
    return {
        name: message_factory.GetMessageClass(descriptor)
        for name, descriptor in file.message_types_by_name.items()
    }


def _of_number(number: int) -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"penstock/{number}.proto", syntax="proto2")
    message = file.message_type.add(name=f"PenstockOption{number}")
    message.field.add(name="option", number=number, type=kinds.TYPE_BYTES, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message.name))


_NUMBERS: Final = {number: _of_number(number) for number in (_RULES, _PREDEFINED)}
