"""JSON judged by JSON Schema, as the policy `penstock.policies.JsonSchema` judges it.

`$ref` leads to the schema's references by their names, and nowhere else. Without `$schema` a
schema is of draft 2020-12.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.policies.json_schema.check import Check
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.features import MAX_SCHEMAS
from penstock.policies.json_schema.texts import SchemaTexts
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.fast_way import not_accepted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.policies.schema_policy.payloads.compiled import SchemaSource

MAX_REFERENCES: Final = 1000
"""How many schemas a schema may refer to, all in all."""
_MAX_MESSAGE: Final = 500
_COPIED_AT_ONCE: Final = 256
"""How many payloads are copied before they are judged; one by one takes longer."""


class JsonPayloads:
    """Judges JSON texts by a JSON Schema."""

    def __init__(self, check: Check) -> None:
        self._check = check

    @property
    def bounded(self) -> bool:
        """Whether judging takes time in proportion to a payload's bytes."""
        return self._check.features.bounded

    def all_fit(self, payloads: Iterable[bytes]) -> bool:
        """Return whether the fast way accepts every payload.

        Returns:
            False where another way has to judge.

        Raises:
            ValueError: A payload is not JSON.
        """
        fits = self._check.fits
        return fits is not None and all(map(fits, payloads))

    def objections(
        self, payloads: Sequence[bytes | memoryview], start: int = 0
    ) -> Iterator[tuple[int, str]]:
        """Yield the position of each payload that does not fit, with what is wrong and where.

        The fast way reads `bytes`; a `memoryview` is judged the slow way. Payloads that start later
        are copied, some at a time.
        """
        fits: Callable[[Any], bool] = self._check.fits or _no_answer
        cut = itemgetter(slice(start, None))
        for first in range(0, len(payloads), _COPIED_AT_ONCE):
            some = payloads[first : first + _COPIED_AT_ONCE]
            texts = list(map(cut, some)) if start else some
            for position in not_accepted(texts, partial(map, fits)):
                text = self._check.explanation(bytes(texts[position]))
                if text is not None:
                    yield first + position, text

    def decode(self, payload: bytes) -> object:
        """Return what a payload that fits says.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            return orjson.loads(payload)
        except orjson.JSONDecodeError:
            raise ValueError("the payload is not JSON") from None

    def encode(self, value: object) -> bytes:
        """Return a value as JSON.

        Raises:
            ValueError: It cannot be JSON.
        """
        try:
            return orjson.dumps(value)
        except TypeError:
            raise ValueError("the value cannot be written as JSON") from None


def compile_json(source: SchemaSource) -> JsonPayloads:
    """Compile a JSON Schema.

    Raises:
        InvalidSchemaError: It is not one, refers to too many or what is not given, or applies
            more than 100,000 schemas to one value, with each reference replaced by what it means.
    """
    if len(source.references) > MAX_REFERENCES:
        raise InvalidSchemaError(f"the schema has more than {MAX_REFERENCES} references")
    try:
        check = Check(SchemaTexts(source.text, source.references), formats=False)
    except SchemaError as error:
        text = str(error)
        raise InvalidSchemaError(
            text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."
        ) from None
    if check.features.schemas > MAX_SCHEMAS:
        raise InvalidSchemaError(
            f"the schema has more than {MAX_SCHEMAS} schemas, with each reference replaced by "
            "what it means"
        )
    return JsonPayloads(check)


def _no_answer(_: bytes) -> bool:
    return False
