"""Where in a message upb's objection lies: the bytes read once more, field by field.

upb reports that there is a fault, but not where. This is the slow way, for refused messages,
and bounded: beyond `MAX_STEPS` nothing is found. Each takes about `STEP_MS` at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MAX_STEPS: Final = 40_000
STEP_MS: Final = 0.001
"""The most numbers, messages and required fields to read; of long numbers each byte counts."""
MAX_DEPTH: Final = 100
_VARINT, _FIXED64, _BYTES, _START, _END, _FIXED32 = range(6)
_MAX_NUMBER: Final = 2**29 - 1
_MAX_PATH: Final = 200
_CUT_OFF: Final = "ends in the middle of a field"
_WIRE_TYPES: Final = {
    Field.TYPE_DOUBLE: _FIXED64,
    Field.TYPE_FIXED64: _FIXED64,
    Field.TYPE_SFIXED64: _FIXED64,
    Field.TYPE_FLOAT: _FIXED32,
    Field.TYPE_FIXED32: _FIXED32,
    Field.TYPE_SFIXED32: _FIXED32,
    Field.TYPE_STRING: _BYTES,
    Field.TYPE_BYTES: _BYTES,
    Field.TYPE_MESSAGE: _BYTES,
    Field.TYPE_GROUP: _START,
}


class TooManyFieldsError(ValueError):
    """More than the limit."""


class Flaw(NamedTuple):
    """The result of a search.

    Attributes:
        text: The first fault of a message and its place; None if none was found.
        steps: How many steps the search took.
    """

    text: str | None
    steps: int


class _Frame(NamedTuple):
    type: _Type
    path: tuple[str, ...]
    end: int
    group: int  # the number of the field that an end-group tag ends; 0 for a field with a length
    field_numbers: set[int]


class FlawError(ValueError):
    """A fault."""


class Flaws:
    """Finds faults in messages of a pool's types, and remembers the types."""

    def __init__(self) -> None:
        self._types: dict[str, _Type] = {}

    def find(self, data: bytes, descriptor: Descriptor, *, allow_unknown_fields: bool) -> Flaw:
        """Find the first fault of a message, in its first `MAX_STEPS` steps.

        A step is a tag, a length, a value, a message or a required field.

        Args:
            allow_unknown_fields: Whether unknown fields are passed over.
        """
        walk, text = _MessageWalk(data, self, allow_unknown_fields=allow_unknown_fields), None
        try:
            walk.walk(descriptor)
        except FlawError as flaw:
            text = str(flaw)
        except TooManyFieldsError:
            pass
        return Flaw(text, min(MAX_STEPS, MAX_STEPS - walk.steps_left))

    def type_of(self, message: Descriptor) -> _Type:
        """Return the known facts about a type."""
        message_type = self._types.get(message.full_name)
        if message_type is None:
            message_type = self._types[message.full_name] = _Type(message)
        return message_type


class _Type:
    """A message type: to get each field from its descriptor again takes ten times as long."""

    def __init__(self, message: Descriptor) -> None:
        self.name: str = message.full_name
        self.required: list[Field] = [field for field in message.fields if field.is_required]
        self._by_number = message.fields_by_number
        self._fields: dict[int, _KnownField] = {}
        if message.is_extendable:
            for extension in message.file.pool.FindAllExtensions(message):
                self._fields[extension.number] = _KnownField.of(extension)

    def field(self, number: int) -> _KnownField | None:
        """Return a field, or an extension; None where it has none."""
        known_field = self._fields.get(number)
        if known_field is None:
            field: Field | None = self._by_number.get(number)
            if field is not None:
                known_field = self._fields[number] = _KnownField.of(field)
        return known_field


class _KnownField(NamedTuple):
    field: Field
    name: str
    type: int
    wire_type: int
    may_be_packed: bool
    closed_enum: Any  # the enum, where it has only the numbers that it lists

    @classmethod
    def of(cls, field: Field) -> _KnownField:
        own = _WIRE_TYPES.get(field.type, _VARINT)
        enum = field.enum_type
        closed = enum if enum is not None and enum.is_closed else None
        packed = field.is_repeated and own not in {_BYTES, _START}
        return cls(field, field.name, field.type, own, packed, closed)

    def fits(self, wire_type: int) -> bool:
        return wire_type == self.wire_type or (self.may_be_packed and wire_type == _BYTES)


class _MessageWalk:
    def __init__(self, data: bytes, flaws: Flaws, *, allow_unknown_fields: bool) -> None:
        self._data = data
        self._flaws = flaws
        self._position = 0
        self.steps_left = MAX_STEPS
        self._allows_unknown = allow_unknown_fields

    def walk(self, descriptor: Descriptor) -> None:
        frames = [_Frame(self._flaws.type_of(descriptor), (), len(self._data), 0, set())]
        while True:
            frame = frames[-1]
            if not frame.group and self._position == frame.end:
                self._complete(frames.pop())
                if not frames:
                    return
                continue
            number, wire_type = self._tag(frame)
            if wire_type == _END:
                if number != frame.group or not number:
                    raise FlawError(f"has an end of a group without its start{_at(frame)}")
                self._complete(frames.pop())
                continue
            inner = self._field(frame, number, wire_type)
            if inner is not None:
                frames.append(inner)
                if len(frames) > MAX_DEPTH + 1:
                    raise FlawError(f"is nested deeper than {MAX_DEPTH} levels")

    def _tag(self, frame: _Frame) -> tuple[int, int]:
        tag = self._varint(frame)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number <= _MAX_NUMBER:
            raise FlawError(f"has a field with a number that no field can have{_at(frame)}")
        if wire_type > _FIXED32:
            raise FlawError(f"has a field of an unknown wire type{_at(frame)}")
        return number, wire_type

    def _field(self, frame: _Frame, number: int, wire_type: int) -> _Frame | None:
        known_field = frame.type.field(number)
        if known_field is None or not known_field.fits(wire_type):
            self._unknown(frame, number, known_field)
            self._skip(frame, number, wire_type)
            return None
        frame.field_numbers.add(number)
        if known_field.type == Field.TYPE_GROUP:
            return self._inner(frame, known_field, frame.end, known_field.field.number)
        if wire_type != _BYTES:
            value = self._scalar(frame, wire_type)
            if known_field.closed_enum is not None:
                self._enum(frame, known_field, value)
            return None
        end = self._length(frame, known_field)
        if known_field.type == Field.TYPE_MESSAGE:
            return self._inner(frame, known_field, end, 0)
        if known_field.type == Field.TYPE_STRING:
            self._string(frame, known_field, end)
        elif known_field.closed_enum is not None:
            self._packed(frame, known_field, end)
        self._position = end
        return None

    def _inner(self, frame: _Frame, known_field: _KnownField, end: int, group: int) -> _Frame:
        self._spend(1)
        message = self._flaws.type_of(known_field.field.message_type)
        return _Frame(message, (*frame.path, known_field.name), end, group, set())

    def _string(self, frame: _Frame, known_field: _KnownField, end: int) -> None:
        try:
            str(memoryview(self._data)[self._position : end], "utf-8")
        except UnicodeDecodeError:
            if _is_checked(known_field.field):
                raise FlawError(f"{_path(frame, known_field)} is not UTF-8") from None

    def _packed(self, frame: _Frame, known_field: _KnownField, end: int) -> None:
        """Read packed numbers only if upb does not report the fault: enums."""
        if self._allows_unknown:
            return
        inside = frame._replace(end=end)
        while self._position < end:
            self._enum(frame, known_field, self._varint(inside))

    def _enum(self, frame: _Frame, known_field: _KnownField, value: int) -> None:
        if self._allows_unknown:
            return
        number = value & 0xFFFFFFFF
        if number >= 2**31:
            number -= 2**32
        if number not in known_field.closed_enum.values_by_number:
            raise FlawError(f"{_path(frame, known_field)} has a number that its enum does not have")

    def _unknown(self, frame: _Frame, number: int, known_field: _KnownField | None) -> None:
        if self._allows_unknown:
            return
        if known_field is None:
            raise FlawError(f"unknown field {number} in {frame.type.name}{_at(frame)}")
        raise FlawError(
            f"{_path(frame, known_field)} of {frame.type.name} is encoded as another type"
        )

    def _skip(self, frame: _Frame, number: int, wire_type: int) -> None:
        if wire_type == _BYTES:
            self._position = self._length(frame, None)
        elif wire_type != _START:
            self._scalar(frame, wire_type)
        else:
            self._skip_group(frame, number)

    def _skip_group(self, frame: _Frame, number: int) -> None:
        open_groups = [number]
        while open_groups:
            number, wire_type = self._tag(frame)
            if wire_type == _START:
                open_groups.append(number)
            elif wire_type != _END:
                self._skip(frame, number, wire_type)
            elif open_groups.pop() != number:
                raise FlawError(f"has an end of a group without its start{_at(frame)}")

    def _scalar(self, frame: _Frame, wire_type: int) -> int:
        if wire_type == _VARINT:
            return self._varint(frame)
        self._position += 8 if wire_type == _FIXED64 else 4
        if self._position > frame.end:
            raise FlawError(_CUT_OFF + _at(frame))
        return 0

    def _length(self, frame: _Frame, known_field: _KnownField | None) -> int:
        length = self._varint(frame)
        if length > frame.end - self._position:
            inner = frame.path if known_field is None else (*frame.path, known_field.name)
            raise FlawError(_CUT_OFF + _at(frame._replace(path=inner)))
        return self._position + length

    def _varint(self, frame: _Frame) -> int:
        if not self.steps_left:
            raise TooManyFieldsError
        self.steps_left -= 1
        data, position, end = self._data, self._position, frame.end
        if position < end and data[position] < 0x80:
            self._position = position + 1
            return data[position]
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                raise FlawError(_CUT_OFF + _at(frame))
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._spend(position - self._position)
                self._position = position
                return value
        raise FlawError(f"has a number of more than 10 bytes{_at(frame)}")

    def _complete(self, frame: _Frame) -> None:
        required = frame.type.required
        if not required:
            return
        self._spend(len(required))
        for field in required:
            if field.number not in frame.field_numbers:
                raise FlawError(
                    f"required field {field.name} of {frame.type.name} is missing{_at(frame)}"
                )

    def _spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise TooManyFieldsError


def _is_checked(field: Field) -> bool:
    """Return whether a string has to be UTF-8: in proto3, and in editions unless they say no."""
    file = FileDescriptorProto.FromString(field.file.serialized_pb)
    if file.syntax != "editions":
        return bool(file.syntax == "proto3")
    # The runtime's descriptors do not show features; the file does.
    scopes: list[Any] = [file]
    if field.is_extension:
        scopes.extend(extension for extension in file.extension if extension.name == field.name)
    else:
        messages: Any = file.message_type
        package = f"{file.package}." if file.package else ""
        for name in field.containing_type.full_name.removeprefix(package).split("."):
            scopes.append(next(message for message in messages if message.name == name))
            messages = scopes[-1].nested_type
        scopes.extend(inner for inner in scopes[-1].field if inner.number == field.number)
    for scope in reversed(scopes):
        features = scope.options.features
        if features.HasField("utf8_validation"):
            return bool(features.utf8_validation == features.VERIFY)
    return True


def _path(frame: _Frame, known_field: _KnownField) -> str:
    return ".".join((*frame.path, known_field.name))[-_MAX_PATH:]


def _at(frame: _Frame) -> str:
    return f" at {'.'.join(frame.path)[-_MAX_PATH:]}" if frame.path else ""
