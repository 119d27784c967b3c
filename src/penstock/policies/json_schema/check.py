"""A value judged by one schema: a fast yes, and a slow answer with a reason.

`corvus-json-schema-rs` reads the bytes and says whether they fit, without making a Python object.
Only its yes counts, and only for schemas whose every keyword has been seen to mean the same to
`jsonschema-rs` (`features.py`). Everything else is decided by that, which knows the reason. Both
see the same documents, since the same reader says first what is JSON:

- UTF-8 without a byte order mark, one document and nothing behind it but white space
- `NaN`, `Infinity`, comments, trailing commas and halves of surrogate pairs are not JSON
- at most 127 levels of arrays and objects
- of properties with the same name the last counts
- whole numbers of 64 bits are exact, any other number is the nearest double; what is too large
  for a double is refused
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import corvus_json_schema_rs as corvus
import jsonschema_rs
import orjson

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.features import MAX_EXPLAINED, MAX_REPEATS, features_of
from penstock.policies.json_schema.reasons import reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.json_schema.documents import SchemaDocuments
    from penstock.policies.json_schema.features import Features

_DIALECTS: Final = {
    4: corvus.Dialect.DRAFT4,
    6: corvus.Dialect.DRAFT6,
    7: corvus.Dialect.DRAFT7,
    2019: corvus.Dialect.DRAFT201909,
    2020: corvus.Dialect.DRAFT202012,
}
_METASCHEMAS: Final = ("http://json-schema.org/draft-", "https://json-schema.org/draft/")
_is_json: Final = corvus.compile(True).is_valid_json
_MAX_MESSAGE: Final = 300
_NO_REASON: Final = (
    "does not fit; where is not said, since the schema judges what is inside by several ways and "
    "the value has too many levels"
)
_TOO_MANY: Final = "does not fit; where is not said, since too many schemas judge one value"
_TOO_DEEP: Final = "recursion limit exceeded"
_NOT_UTF_8: Final = "not UTF-8"
_TOO_LARGE: Final = "number out of range"


class Check:
    """Judges texts by one schema.

    Attributes:
        features: What the schema uses.
        fits: Returns True where a text fits, whatever it raises or returns otherwise being no
            answer; None where the schema is not one for the fast way.
    """

    def __init__(self, files: SchemaDocuments, *, formats: bool) -> None:
        """Compile a schema.

        Args:
            files: The schema.
            formats: Whether `format` is judged.

        Raises:
            SchemaError: It is not a valid schema, or refers to what is not there.
        """
        files.problem = ""
        try:
            # Validated first: the walk expects keywords to have the values that they can have.
            self._validator = jsonschema_rs.validator_for(
                files.schema,
                validate_formats=formats,
                ignore_unknown_formats=False,
                retriever=partial(_retrieved, files),
                base_uri=files.uri,
                pattern_options=jsonschema_rs.RegexOptions(),
            )
            self.features = _features(files, formats=formats)
        except SchemaError as error:
            raise SchemaError(_about(files, error)) from None
        except (ValueError, jsonschema_rs.ReferencingError, RecursionError) as error:
            raise SchemaError(files.problem or _about(files, error)) from None
        self.fits: Callable[[bytes], bool] | None = self._fast(files)

    def objection(self, text: bytes, field: str) -> str | None:
        """Return why a text does not fit, and None where it does; `field` is `key` or `value`."""
        found = self.explanation(text)
        return None if found is None else f"the {field} {found}"

    def explanation(self, text: bytes) -> str | None:
        """Return why a text does not fit, as what is said of it; None where it does."""
        try:
            _is_json(text)
        except ValueError as error:
            return _not_json(str(error))
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            return "is not JSON"
        repeats = self.features.repeats
        are_too_many = self.features.branches and self.features.in_place > MAX_EXPLAINED
        if repeats > 1 or are_too_many:
            # To ask for the answer alone takes no time in proportion to the ways: each schema
            # judges each value once. Reasons are gathered for every way.
            if self._validator.is_valid(document):
                return None
            if are_too_many:
                return _TOO_MANY
            if repeats ** _levels(document) > MAX_REPEATS:
                return _NO_REASON
        try:
            self._validator.validate(document)
        except jsonschema_rs.ValidationError as error:
            return reason(error, self.features.names)
        return None

    def _fast(self, files: SchemaDocuments) -> Callable[[bytes], bool] | None:
        if self.features.slow:
            return None
        try:
            return corvus.compile(
                files.schema,
                default_dialect=_DIALECTS[files.draft],
                assert_format=False,
                resolve_document=files.retrieve,
                base_uri=files.uri,
            ).is_valid_json
        except (ValueError, SchemaError, corvus.SchemaCompilationError) as error:
            self.features.slow.add(f"not compiled: {error}")
            self.features.bounded = False
            return None


def _levels(document: Any) -> int:
    """Return how many arrays and objects are inside each other."""
    levels, inside = 0, [document]
    while True:
        inside = [
            value
            for one in inside
            if isinstance(one, dict | list)
            for value in (one.values() if isinstance(one, dict) else one)
        ]
        if not inside:
            return levels
        levels += 1


def _retrieved(files: SchemaDocuments, uri: str) -> Any:
    """Return a file that a schema refers to, after a look at whether it is a schema itself."""
    schema = files.retrieve(uri)
    if isinstance(schema, dict):
        try:
            jsonschema_rs.meta.validate(schema)
        except jsonschema_rs.ValidationError as error:
            raise files.refused(uri, f"it {_invalid(error)}") from None
    return schema


def _features(files: SchemaDocuments, *, formats: bool) -> Features:
    metaschemas: list[str] = []
    registry = jsonschema_rs.Registry([(files.uri, files.schema)], retriever=files.retrieve)

    def lookup(base: str, reference: str) -> tuple[Any, str]:
        if urljoin(base, reference).startswith(_METASCHEMAS):
            metaschemas.append(reference)
            return True, base
        found = registry.resolver(base).lookup(reference)
        return found.contents, found.resolver.base_uri

    features = features_of(files, lookup, formats=formats)
    if files.has_other_drafts:
        features.slow.add("several drafts")
    if metaschemas:
        features.slow.add("$ref to a metaschema")
    if features.slow:
        features.bounded = False
    return features


def _about(files: SchemaDocuments, error: BaseException) -> str:
    if not isinstance(error, jsonschema_rs.ValidationError):
        return f"{files.name}: {error}"
    return f"{files.names} {_invalid(error)}"


def _invalid(error: jsonschema_rs.ValidationError) -> str:
    place = "".join(f"/{step}" for step in error.instance_path)
    why = ""
    if 'is not a "regex"' in error.message:
        why = (
            ": regular expressions must be of those that are matched in linear time, which have "
            "no look-around and no references back"
        )
    return f"is not a valid schema at {place or 'its root'}: {_cut(error.message)}{why}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}..."


def _not_json(error: str) -> str:
    """Return the reason in our words: the reader's are not promised to be without content."""
    if _TOO_DEEP in error:
        return "has more than 127 levels of arrays and objects"
    if _TOO_LARGE in error:
        return "has a number that is too large for a double"
    if _NOT_UTF_8 in error:
        return "is not JSON, which is UTF-8"
    return "is not JSON"
