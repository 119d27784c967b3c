"""Where in a message upb's objection lies: the bytes read once more, field by field.

upb says that there is something, never where. This is the slow way, for what is refused already,
and bounded: beyond `MAX_STEPS` numbers nothing is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MAX_STEPS: Final = 100_000
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
    """More numbers than are read."""


class _Frame(NamedTuple):
    message: Descriptor
    path: tuple[str, ...]
    end: int
    group: int  # the number of the field that an end-group tag ends; 0 for what has a length
    seen: set[int]


class FlawError(ValueError):
    """What is wrong."""


def find_flaw(data: bytes, descriptor: Descriptor, *, allow_unknown_fields: bool) -> str | None:
    """Return what is wrong first in a message, and where; None where nothing is.

    Args:
        data: The message.
        descriptor: Its type.
        allow_unknown_fields: Whether unknown fields are passed over.

    Raises:
        TooManyFieldsError: Nothing is wrong with the first `MAX_STEPS` numbers (tags, lengths,
            values), and there are more.
    """
    try:
        _Walk(data, allow_unknown_fields=allow_unknown_fields).walk(descriptor)
    except FlawError as flaw:
        return str(flaw)
    return None


class _Walk:
    def __init__(self, data: bytes, *, allow_unknown_fields: bool) -> None:
        self._data = data
        self._position = 0
        self._steps = MAX_STEPS
        self._allowed = allow_unknown_fields

    def walk(self, descriptor: Descriptor) -> None:
        frames = [_Frame(descriptor, (), len(self._data), 0, set())]
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
        field = _field_of(frame.message, number)
        if field is None or not _fits(field, wire_type):
            self._unknown(frame, number, field)
            self._skip(frame, number, wire_type)
            return None
        frame.seen.add(number)
        if field.type == Field.TYPE_GROUP:
            return self._inner(frame, field, frame.end)
        if wire_type != _BYTES:
            value = self._scalar(frame, wire_type)
            self._enum(frame, field, value)
            return None
        end = self._length(frame, (*frame.path, field.name))
        if field.type == Field.TYPE_MESSAGE:
            return self._inner(frame, field, end)
        if field.type == Field.TYPE_STRING:
            self._string(frame, field, end)
        elif field.type != Field.TYPE_BYTES:
            self._packed(frame, field, end)
        self._position = end
        return None

    def _inner(self, frame: _Frame, field: Field, end: int) -> _Frame:
        group = field.number if field.type == Field.TYPE_GROUP else 0
        return _Frame(field.message_type, (*frame.path, field.name), end, group, set())

    def _string(self, frame: _Frame, field: Field, end: int) -> None:
        try:
            str(memoryview(self._data)[self._position : end], "utf-8")
        except UnicodeDecodeError:
            if _is_checked(field):
                raise FlawError(f"{_path(frame, field)} is not UTF-8") from None

    def _packed(self, frame: _Frame, field: Field, end: int) -> None:
        """Look at packed numbers only where it says something that upb does not say: enums."""
        if field.enum_type is None or not field.enum_type.is_closed or self._allowed:
            return
        inside = frame._replace(end=end)
        while self._position < end:
            self._enum(frame, field, self._varint(inside))

    def _enum(self, frame: _Frame, field: Field, value: int) -> None:
        if field.enum_type is None or not field.enum_type.is_closed or self._allowed:
            return
        number = value & 0xFFFFFFFF
        if number >= 2**31:
            number -= 2**32
        if number not in field.enum_type.values_by_number:
            raise FlawError(f"{_path(frame, field)} has a number that its enum does not have")

    def _unknown(self, frame: _Frame, number: int, field: Field | None) -> None:
        if self._allowed:
            return
        if field is None:
            raise FlawError(f"unknown field {number} in {frame.message.full_name}{_at(frame)}")
        raise FlawError(
            f"{_path(frame, field)} of {frame.message.full_name} is encoded as another type"
        )

    def _skip(self, frame: _Frame, number: int, wire_type: int) -> None:
        if wire_type == _BYTES:
            self._position = self._length(frame, frame.path)
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

    def _length(self, frame: _Frame, path: tuple[str, ...]) -> int:
        length = self._varint(frame)
        if length > frame.end - self._position:
            raise FlawError(_CUT_OFF + _at(frame._replace(path=path)))
        return self._position + length

    def _varint(self, frame: _Frame) -> int:
        if not self._steps:
            raise TooManyFieldsError
        self._steps -= 1
        value = 0
        for shift in range(0, 70, 7):
            if self._position >= frame.end:
                raise FlawError(_CUT_OFF + _at(frame))
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise FlawError(f"has a number of more than 10 bytes{_at(frame)}")

    def _complete(self, frame: _Frame) -> None:
        for field in frame.message.fields:
            if field.is_required and field.number not in frame.seen:
                raise FlawError(
                    f"required field {field.name} of {frame.message.full_name} is missing"
                    f"{_at(frame)}"
                )


def _field_of(message: Descriptor, number: int) -> Field | None:
    field: Field | None = message.fields_by_number.get(number)
    if field is None and message.is_extendable:
        for extension in message.file.pool.FindAllExtensions(message):
            if extension.number == number:
                return extension
    return field


def _fits(field: Field, wire_type: int) -> bool:
    own = _WIRE_TYPES.get(field.type, _VARINT)
    packed = field.is_repeated and wire_type == _BYTES and own not in {_BYTES, _START}
    return wire_type == own or packed


def _is_checked(field: Field) -> bool:
    """Return whether a string has to be UTF-8: in proto3, and in editions unless they say no."""
    file = FileDescriptorProto.FromString(field.file.serialized_pb)
    if file.syntax != "editions":
        return bool(file.syntax == "proto3")
    # The runtime's descriptors do not show features; the file does.
    scopes: list[Any] = [file]
    if field.is_extension:
        scopes.extend(one for one in file.extension if one.name == field.name)
    else:
        within: Any = file.message_type
        package = f"{file.package}." if file.package else ""
        for name in field.containing_type.full_name.removeprefix(package).split("."):
            scopes.append(next(one for one in within if one.name == name))
            within = scopes[-1].nested_type
        scopes.extend(one for one in scopes[-1].field if one.number == field.number)
    for scope in reversed(scopes):
        features = scope.options.features
        if features.HasField("utf8_validation"):
            return bool(features.utf8_validation == features.VERIFY)
    return True


def _path(frame: _Frame, field: Field) -> str:
    return ".".join((*frame.path, field.name))[-_MAX_PATH:]


def _at(frame: _Frame) -> str:
    return f" at {'.'.join(frame.path)[-_MAX_PATH:]}" if frame.path else ""
