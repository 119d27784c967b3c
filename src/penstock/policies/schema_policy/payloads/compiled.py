"""A schema that is ready to judge payloads, of any type."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from google.protobuf.descriptor import Descriptor

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class SchemaSource(NamedTuple):
    """The source of a schema.

    Attributes:
        schema_type: `AVRO`, `PROTOBUF` or `JSON`.
        references: The texts of all schemas that it refers to, and that those refer to, by the
            names that schemas use for them.
        message: For Protobuf without a registry: the full name of the message.
    """

    schema_type: str
    text: str
    references: Mapping[str, str] = _NOTHING
    message: str | None = None


class CompiledSchema(Protocol):
    """Judges payloads by a schema; used by one thread.

    A payload is the part after the schema id: Avro's binary encoding; a JSON text; for Protobuf
    the message indexes and the message, or only the message if the source names its type.
    """

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> Iterable[tuple[int, str]]:
        """Return the positions of payloads that do not fit, ascending, each with the reason.

        The reason has the fault and its place, but no content of the payload.

        Args:
            start: Where each of them starts: earlier bytes, a schema id, are not judged.
        """
        ...

    def decode(self, payload: bytes) -> object:
        """Return the value of a payload that fits, for rules and redaction."""
        ...

    def encode(self, value: object) -> bytes:
        """Return the payload of a value of the kind that `decode` returns.

        Raises:
            ValueError: The value does not fit the schema; the text does not show it.
        """
        ...


@runtime_checkable
class NamesMessages(Protocol):
    """A compiled schema whose payloads say which type they are of: Protobuf."""

    @property
    def messages(self) -> Sequence[Descriptor]:
        """The types that payloads may have; they may have those nested in them as well."""
        ...

    def message_name(self, payload: bytes) -> str | None:
        """Return the full name of the type that a payload declares, or None."""
        ...
