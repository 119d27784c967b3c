"""Texts judged in Rust (`native/src/json`), by the bytes, with the reason and the verdict.

The work is bounded: each text may take steps in proportion to its bytes, and all of a column share
a limit for all others. Each schema judges each value once, by however many ways it is reached. A
text that takes more is refused, with that reason.
"""

from __future__ import annotations

import json
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from penstock import _native
from penstock.policies.json_schema.column_schema import ColumnSchema, names_read
from penstock.policies.json_schema.dialects import METASCHEMAS, draft_of_uri, uri_of
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.ecma import Translation
from penstock.policies.json_schema.library import LibraryCheck
from penstock.policies.json_schema.reasons import native_reason
from penstock.policies.json_schema.required_fields import required_fields
from penstock.policies.json_schema.validity import about, check_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.policies.by_columns import NativeJudge
    from penstock.policies.json_schema.documents import SchemaDocuments
    from penstock.policies.json_schema.reasons import Reason, Texts
    from penstock.policies.json_schema.required_fields import RequiredField

SHARED_STEPS: Final = 20_000_000
"""What the texts of a column may take together, besides what each has for its bytes: a step is a
schema that judges a value, and takes about 10 ns."""
INLINE_STEPS: Final = 200_000
"""The same, for texts of which only acceptance matters: the gateway's event loop waits for it."""
_MOST_ROUNDS: Final = 1001


class MetaschemaNeeded(Exception):  # noqa: N818 - no error: another evaluator has them
    """A schema refers to a metaschema, which is not among its documents."""


class NativeCheck:
    """Judges texts by a schema; implements `check.Check`."""

    def __init__(self, files: SchemaDocuments, *, formats: bool) -> None:
        """Compile a schema.

        Args:
            formats: Whether `format` is judged.

        Raises:
            SchemaError: It is not a valid schema, or refers to a missing schema.
            MetaschemaNeeded: It refers to a metaschema.
        """
        self._files, self._formats = files, formats
        self._translation = Translation(is_native=True)
        self._schema = _compiled(
            files,
            partial(_format, files.ignores_unknown_formats) if formats else None,
            self._translation,
        )
        self.is_bounded = not (formats or self._schema.has_slow_patterns)

    @property
    def column_schema(self) -> ColumnSchema:
        """The result of `check.Check.column_schema`."""
        files, library = self._files, self._library
        # Where reasons may take long, whether they are gathered depends on the whole text's size.
        is_linear = library is None or library.work.is_linear
        fields = names_read(files.schema) if is_linear else None
        return ColumnSchema(files.schema, files.draft, self._formats, fields)

    @property
    def required_fields(self) -> Iterator[RequiredField]:
        """The result of `check.Check.required_fields`."""
        return required_fields(self._files.schema, self._files.draft)

    def judge_natively(
        self, judge: NativeJudge, *, keys: bool, accepts_null: bool, longest: int | None = None
    ) -> bool:
        """Return the result of `check.Check.judge_natively`."""
        return judge.fits(self._schema, keys, accepts_null, longest)

    def refused(self, texts: Texts, start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the results of `check.Check.refused`."""
        for position, (keyword, keyword_value, pointer) in self._schema.refused(
            texts, start, SHARED_STEPS
        ):
            reason = native_reason(keyword, keyword_value, pointer)
            yield position, self._translation.as_written(reason)

    def unfit(self, texts: Texts) -> Sequence[int]:
        """Return the result of `check.Check.unfit`."""
        return [position for position, _ in self._schema.refused(texts, 0, SHARED_STEPS)]

    def reasons(self, text: bytes) -> Sequence[Reason]:
        """Return the result of `check.Check.reasons`."""
        return () if self._library is None else self._library.reasons(text)

    @cached_property
    def _library(self) -> LibraryCheck | None:
        """The same schema by the library, which gives all reasons; None if it cannot use it."""
        try:
            return LibraryCheck(self._files, formats=self._formats)
        except SchemaError:
            return None

    def all_fit(self, texts: Texts, start: int = 0) -> bool:
        """Return the result of `check.Check.all_fit`."""
        return bool(self._schema.all_fit(texts, start, INLINE_STEPS))


def _compiled(
    files: SchemaDocuments,
    formats: Callable[[int, str], Any] | None,
    translation: Translation,
) -> Any:
    check_schema(files, files.schema)
    documents = [_document(files.uri, translation.document(files.schema), files.draft)]
    for _ in range(_MOST_ROUNDS):
        try:
            result = _native.json_schema(documents, formats)
        except ValueError as error:
            message = translation.as_written(str(error))
            raise SchemaError(f"{files.names} cannot be used: {message}") from None
        except SchemaError as error:  # of a format
            raise SchemaError(f"{files.names} {error}") from None
        if not isinstance(result, list):
            return result
        for uri in result:
            if uri.startswith(METASCHEMAS):
                raise MetaschemaNeeded
            schema = files.retrieve(uri)
            check_schema(files, schema, uri)
            documents.append(_document(uri, translation.document(schema), files.draft))
    raise SchemaError(f"{files.name} refers to more than {_MOST_ROUNDS} documents in a row")


def _document(uri: str, schema: Any, draft: int) -> tuple[str, int, bytes]:
    if isinstance(schema, dict):
        draft = draft_of_uri(schema["$schema"]) or draft
    return uri, draft, json.dumps(schema, ensure_ascii=False).encode(errors="surrogatepass")


def _format(ignores_unknown: bool, draft: int, name: str) -> Callable[[str], bool]:
    """Return the function that decides whether a string has a format, as the library does.

    Raises:
        SchemaError: There is no such format.
    """
    schema = {"$schema": uri_of(draft), "format": name}
    try:
        check: Callable[[str], bool] = jsonschema_rs.validator_for(
            schema, validate_formats=True, ignore_unknown_formats=ignores_unknown
        ).is_valid
    except ValueError as error:
        raise SchemaError(about(error)) from None
    return check
