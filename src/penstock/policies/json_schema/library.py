"""Texts judged by `jsonschema-rs`, where `native/` is not installed: the same verdicts, slower.

The library has no bound on the time to gather reasons, so it is estimated: see `work.py`.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import jsonschema_rs
import orjson

from penstock.policies.explanations import NO_REASON, Explanations
from penstock.policies.json_schema.dialects import METASCHEMAS
from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.ecma import Translation
from penstock.policies.json_schema.inversions import inverted_pattern
from penstock.policies.json_schema.reasons import FLAWS, named_reason, reason
from penstock.policies.json_schema.required_fields import required_fields
from penstock.policies.json_schema.validity import about, check_schema
from penstock.policies.json_schema.work import work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.policies.json_schema.documents import SchemaDocuments
    from penstock.policies.json_schema.reasons import Reason, Texts
    from penstock.policies.json_schema.required_fields import RequiredField
    from penstock.policies.json_schema.work import SchemaWork

MAX_LEVELS: Final = 127
MAX_STEPS_BACK: Final = 100_000
"""How often a pattern with look-around may go back within one text, as in `native/`."""
_REASONS_MOST: Final = 100
"""How many reasons are given why one text does not fit."""
_TOO_DEEP: Final = "depth limit exceeded"
_TOO_LARGE: Final = "infinity when parsed as double"


class LibraryCheck:
    """Judges texts by a schema; implements `check.Check`."""

    is_bounded = False
    column_schema = None

    def __init__(self, files: SchemaDocuments, *, formats: bool) -> None:
        """Compile a schema.

        Args:
            formats: Whether `format` is judged.

        Raises:
            SchemaError: It is not a valid schema, refers to a missing schema, or is too large.
        """
        files.problem = ""
        self._files = files
        self._translation = Translation(is_native=False)
        check_schema(files, files.schema)
        try:
            make = partial(
                jsonschema_rs.validator_for,
                self._translation.document(files.schema),
                validate_formats=formats,
                ignore_unknown_formats=files.ignores_unknown_formats,
                retriever=partial(_retrieved, files, self._translation),
                base_uri=files.uri,
            )
            self._validator = bounded_validator(make)
            self.work = _work(files)
            _check_patterns(files)
        except SchemaError:
            raise
        except (ValueError, jsonschema_rs.ReferencingError, RecursionError) as error:
            between = " " if isinstance(error, jsonschema_rs.ValidationError) else ": "
            message = f"{files.names}{between}{about(error)}"
            message = self._translation.as_written(message)
            raise SchemaError(files.problem or message) from None

    def refused(self, texts: Texts, start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the result of `check.Check.refused`."""
        explanations = Explanations()
        for position, text in enumerate(texts):
            if text is not None:
                refusal = self._refusal(bytes(text[start:]), explanations)
                if refusal is not None:
                    yield position, refusal

    def unfit(self, texts: Texts) -> Sequence[int]:
        """Return the result of `check.Check.unfit`."""
        return [position for position, _ in self.refused(texts)]

    def reasons(self, text: bytes) -> Sequence[Reason]:
        """Return the result of `check.Check.reasons`."""
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            return ()
        levels = levels_of(text, document)
        milliseconds = self.work.milliseconds(len(text), levels)
        if levels > MAX_LEVELS or not (self.work.is_linear or Explanations().take(milliseconds)):
            return ()
        # The library's order depends on how many properties a value has.
        return sorted(
            reason._replace(text=self._translation.as_written(reason.text))
            for error in islice(self._validator.iter_errors(document), _REASONS_MOST)
            for reason in (named_reason(error, self.work.names),)
        )

    @property
    def required_fields(self) -> Iterator[RequiredField]:
        """The result of `check.Check.required_fields`."""
        return required_fields(self._files.schema, self._files.draft)

    def judge_natively(self, *_: object, **__: object) -> bool:
        """Return that native threads do not judge by it."""
        return False

    def all_fit(self, texts: Texts, start: int = 0) -> bool:
        """Return the result of `check.Check.all_fit`."""
        return next(self.refused(texts, start), None) is None

    def _refusal(self, text: bytes, explanations: Explanations) -> str | None:
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return _flaw(text, str(error))
        levels = levels_of(text, document)
        if levels > MAX_LEVELS:
            return FLAWS["tooDeep"]
        if self._validator.is_valid(document):
            return None
        if not self.work.is_linear and not explanations.take(
            self.work.milliseconds(len(text), levels)
        ):
            return NO_REASON
        try:
            self._validator.validate(document)
        except jsonschema_rs.ValidationError as error:
            return self._translation.as_written(reason(error, self.work.names))
        return NO_REASON  # the library disagrees with itself: its no counts


def _check_patterns(files: SchemaDocuments) -> None:
    """Look whether a pattern that is given up refuses a text, wherever it is."""
    pattern = inverted_pattern(files.documents)
    if pattern is not None:
        raise SchemaError(
            f"{files.names} has the pattern {pattern!r}, with look-around or a back-reference, in "
            "patternProperties or under not, if, oneOf or contains: that is not judged by a schema "
            "that refers to a metaschema"
        )


def bounded_validator(make: Callable[..., Any]) -> Any:
    """Return a validator whose patterns are linear; the other kind where there is look-around.

    Args:
        make: Makes a validator of `jsonschema-rs`, with the options of patterns that it is given.

    Raises:
        ValueError: The schema is invalid, or has an invalid pattern.
    """
    try:
        return make(pattern_options=jsonschema_rs.RegexOptions())
    except ValueError as error:
        if "regex" not in str(error):
            raise
    return make(pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_STEPS_BACK))


def _flaw(text: bytes, error: str) -> str:
    """Return the reason in our words: the reader's are not promised to be without content."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return FLAWS["notUtf8"]
    if _TOO_LARGE in error:
        return FLAWS["tooLarge"]
    return FLAWS["tooDeep" if _TOO_DEEP in error else "notJson"]


def levels_of(text: bytes, document: Any) -> int:
    """Return how many arrays and objects are inside each other."""
    if text.count(b"[") + text.count(b"{") <= 1:
        return isinstance(document, list | dict)
    levels, inside = 0, [document]
    while True:
        inside = [node for node in inside if isinstance(node, dict | list)]
        if not inside:
            return levels
        levels += 1
        inside = [
            value
            for node in inside
            for value in (node.values() if isinstance(node, dict) else node)
        ]


def _retrieved(files: SchemaDocuments, translation: Translation, uri: str) -> Any:
    """Return a document that a schema refers to, after checking whether it is a schema."""
    schema = files.retrieve(uri)
    check_schema(files, schema, uri)
    return translation.document(schema)


def _work(files: SchemaDocuments) -> SchemaWork:
    registry = jsonschema_rs.Registry([(files.uri, files.schema)], retriever=files.retrieve)

    def lookup(base: str, reference: str) -> tuple[Any, str]:
        if urljoin(base, reference).startswith(METASCHEMAS):
            return True, base
        target = registry.resolver(base).lookup(reference)
        return target.contents, target.resolver.base_uri

    return work_of(files, lookup)
