"""Messages of a type, judged by upb, many at a time.

A call of upb from Python costs as much as reading a small message, so payloads are gathered as the
items of one message of a type made for this, and read with one call. All of them become one item,
of a type that loses nothing in this way (`merging.py`). Whether upb kept a field that it does not
know is seen from the outside: DiscardUnknownFields makes the message smaller. Where the type has
required fields, the items are read a second time, one by one. Only acceptance counts for the
complete batch; otherwise each payload is judged separately.

DiscardUnknownFields goes 64 levels deep and reports nothing about deeper levels. Messages of types
that may be deeper are read inside of as many levels as make upb refuse what is too deep for it. A
message that is refused for that is judged once more, from the top and from some levels below.

A verdict is upb's, and takes as long as upb takes to read the bytes a few times. Why a message does
not fit is found separately, and bounded (`flaws.py`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from penstock.policies.schema_policy.payloads.protobuf.flaws import STEP_MS, Flaw, Flaws
from penstock.policies.schema_policy.payloads.protobuf.reach import reach_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pool import DescriptorPool

    from penstock.policies.explanations import Explanations

LEVELS: Final = 40
"""With the item, and upb's limit of 100, this leaves 59 levels: fewer than 64."""
_ITEM_TAG, _START, _END = b"\x0a", b"\x13", b"\x14"
_REACH: Final = 50
"""Levels from which DiscardUnknownFields is called again: fewer than 64, and twice as many are deep
enough."""
MAX_FIELDS: Final = 30_000
"""How many different fields a deep message may have in its first levels: of one in a repeated field
all are taken together. Each takes about a microsecond."""
_DEEP: Final = f"has more fields than are looked at in a message deeper than {99 - LEVELS} levels"
_REASONS: Final = (
    ("UTF-8", "has a string that is not UTF-8"),
    ("MaxDepth", "is nested deeper than 100 levels"),
    ("alloc", "takes more memory to decode than there is"),
)
_CORRUPT: Final = "is cut off, or not a message"
_INCOMPLETE: Final = "has not all required fields"
_UNKNOWN: Final = "has an unknown field"
_LENGTHS: Final = 1024


class MessageCheck:
    """Judges messages of a type."""

    def __init__(
        self,
        descriptor: Descriptor,
        pool: DescriptorPool,
        merging_pool: DescriptorPool,
        *,
        allow_unknown_fields: bool,
    ) -> None:
        """Make the type that reads many.

        Args:
            descriptor: The type of the messages.
            pool: Where it is; may get one more file.
            merging_pool: The same files as `merging.py` makes them; gets one more file.
            allow_unknown_fields: Whether unknown fields are allowed.
        """
        reach = reach_of(descriptor)
        self.new: Any = GetMessageClass(descriptor)
        self.descriptor = descriptor
        self._allows_unknown = allow_unknown_fields
        self._flaws = Flaws()
        self._levels = 0 if reach.shallow or allow_unknown_fields else LEVELS
        self._merging_class: Any = GetMessageClass(
            merging_pool.FindMessageTypeByName(descriptor.full_name)
        )
        self._merged_class: Any = _batch_class(descriptor, merging_pool, repeated=False)
        self._each: Any = None
        if reach.required:
            self._each = _batch_class(descriptor, pool, repeated=True)

    def all_fit(self, messages: Sequence[bytes | memoryview]) -> bool:
        """Return whether every message fits; False if each has to be judged separately."""
        sizes = list(map(len, messages))
        header = _HEADERS.__getitem__ if max(sizes, default=0) < _LENGTHS else _header
        items = chain.from_iterable(zip(map(header, sizes), messages, strict=True))
        data = b"".join((_START * self._levels, *items, _END * self._levels))
        try:
            merged = self._merged_class.FromString(data)
            if not self._allows_unknown and not self._all_known(merged):
                return False
            return self._each is None or bool(self._each.FromString(data).IsInitialized())
        except (DecodeError, EncodeError):
            return False

    def objection(self, data: bytes, explanations: Explanations) -> str | None:
        """Return why a message does not fit; None if it fits.

        Args:
            explanations: Those of its batch; if it may have no more, `refusal` is the reason.
        """
        refusal = self.refusal(data)
        if refusal is None:
            return None
        if not explanations.take():
            return refusal
        flaw = self.explanation(data)
        explanations.spend(flaw.steps * STEP_MS)
        return flaw.text or refusal

    def refusal(self, data: bytes) -> str | None:
        """Return upb's objection to a message, in a few words; None if it fits."""
        try:
            message = self._merging_class.FromString(data)
            if self._each is not None and not self.new.FromString(data).IsInitialized():
                return _INCOMPLETE
        except DecodeError as error:
            words = str(error)
            return next((text for part, text in _REASONS if part in words), _CORRUPT)
        if self._allows_unknown:
            return None
        size = message.ByteSize()
        parts = self._parts(message)
        if parts is None:
            return _DEEP
        for part in parts:
            part.DiscardUnknownFields()
        return None if size == message.ByteSize() else _UNKNOWN

    def explanation(self, data: bytes) -> Flaw:
        """Find the first fault of a message that does not fit.

        Returns:
            Without a text if it takes more than `flaws.MAX_STEPS` to find, or if upb's objection is
            not about a field: then the only reason is that of `refusal`.
        """
        return self._flaws.find(data, self.descriptor, allow_unknown_fields=self._allows_unknown)

    def _parts(self, message: Any) -> list[Any] | None:
        """Return a message, and its content as many levels below that all of it is reached.

        The type loses nothing: repeated messages are single fields.

        Returns:
            None where it has more than `MAX_FIELDS` above those.
        """
        level, budget = [message], MAX_FIELDS
        for _ in range(_REACH if self._levels else 0):
            inner: list[Any] = []
            for part in level:
                fields = part.ListFields()
                budget -= 1 + len(fields)
                if budget < 0:
                    return None
                inner += (value for field, value in fields if field.message_type is not None)
            level = inner
        return [message, *level]

    def _all_known(self, merged: Any) -> bool:
        inner_message = merged
        for _ in range(self._levels):
            inner_message = inner_message.level
        previous_size = inner_message.ByteSize()
        inner_message.DiscardUnknownFields()
        return bool(previous_size == inner_message.ByteSize())


def _header(size: int) -> bytes:
    header = bytearray(_ITEM_TAG)
    while size > 0x7F:
        header.append(size & 0x7F | 0x80)
        size >>= 7
    header.append(size)
    return bytes(header)


_HEADERS: Final = tuple(_header(size) for size in range(_LENGTHS))


def _batch_class(descriptor: Descriptor, pool: DescriptorPool, *, repeated: bool) -> Any:
    name = "penstock_batch"
    while _is_taken(pool, name):
        name += "_"
    file = FileDescriptorProto(
        # No file of a schema has such a name.
        name=f"./{name}",
        package=name,
        syntax="proto2",
        dependency=[descriptor.file.name],
    )
    message = file.message_type.add(name="Batch")
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    message.field.add(
        name="item",
        number=1,
        label=label,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{descriptor.full_name}",
    )
    message.field.add(
        name="level",
        number=2,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type=FieldDescriptorProto.TYPE_GROUP,
        type_name=f".{name}.Batch",
    )
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{name}.Batch"))


def _is_taken(pool: DescriptorPool, name: str) -> bool:
    find: Callable[[str], Any]
    for find, what in (
        (pool.FindFileByName, f"./{name}"),
        (pool.FindFileContainingSymbol, name),
        (pool.FindFileContainingSymbol, f"{name}.Batch"),
    ):
        try:
            find(what)
        except KeyError:
            continue
        return True
    return False
