"""KIP-940: keys and values judged by the JSON Schemas that the topic names.

    record.validation.policy.class.name=penstock.policies.JsonSchema
    topics.orders.record.validation.policy=order.schema.json
    topics.events.record.validation.policy=key=id.schema.json,value=event.schema.json

| key after `json.schema.` | default  |                                                            |
|--------------------------|----------|------------------------------------------------------------|
| `folder`                 | `.`      | the schemas' folder, relative to the configuration file    |
| `formats`                | `false`  | whether `format` is judged, or says nothing                |
| `null.values`            | `accept` | or `refuse`: records without a value, where it is judged   |
| `null.keys`              | `refuse` | or `accept`: records without a key, where it is judged     |

Needs the packages of `penstock[json-schema]`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.policies.json_schema.documents import SchemaError
from penstock.policies.json_schema.files import SchemaFiles
from penstock.policies.json_schema.settings import JsonSchemaSettings, schema_names
from penstock.policy import ALL, InvalidRecordException, RecordIntrospectionHints
from penstock.policy import RecordValidationPolicy as Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.policies.json_schema.check import Check
    from penstock.policy import RecordProxy, TopicMetadata

_TEXTS_KEPT: Final = 1000


class Columns(Protocol):
    """The part of a batch that is judged: one entry for each record."""

    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...


class _TopicChecks(NamedTuple):
    """The checks of one text.

    Attributes:
        key: How keys are judged, or None.
        value: How values are judged, or None.
        fits: The fast way for a value; None where there is none, or where the key is judged, too.
    """

    key: Check | None
    value: Check | None
    fits: Callable[[bytes], bool] | None


class JsonSchema(Policy):
    """Refuses records whose key or value is not JSON, or does not fit the topic's schema."""

    def __init__(self) -> None:
        self._base = Path()
        self._checks = lru_cache(_TEXTS_KEPT)(self._read)

    def use_folder(self, folder: Path) -> None:
        """Learn, before `configure`, the folder of the configuration file."""
        self._base = folder

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Args:
            configs: The configuration file; keys that do not start with `json.schema.` are
                passed over.

        Raises:
            ValueError: A key is unknown or has a wrong value, the folder is none, or a package
                is missing.
        """
        self._settings = JsonSchemaSettings.read(configs)
        self._folder = self._base / self._settings.folder
        if not self._folder.is_dir():
            raise ValueError(f"json.schema.folder: {self._folder} is not a folder")
        try:
            import penstock.policies.json_schema.check  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock[json-schema]"
            ) from None
        self._checks.cache_clear()

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that headers are not looked at."""
        return RecordIntrospectionHints(False, ALL, ALL)

    def prepare_validation_policy(self, text: str) -> None:
        """Read the schemas that a topic's `record.validation.policy` names.

        Raises:
            ValueError: One is missing or cannot be used; the text completes "<key>: ...".
        """
        self._checks(text)

    def is_bounded(self, text: str) -> bool:
        """Return whether judging a record takes time in proportion to its bytes.

        It does where the fast way judges, the schema is not recursive, has no `uniqueItems`, no
        `anyOf` or `oneOf` over what is inside arrays and objects, and takes at most 300 steps:
        one for each subschema with each reference replaced by what it means, for each entry of
        `enum` and `required`, and three for each character of a pattern and each time that one
        is repeated. A text that cannot be used is not bounded.

        Args:
            text: The topic's `record.validation.policy`.
        """
        try:
            checks = self._checks(text)
        except ValueError:
            return False
        return all(one is None or one.features.bounded for one in (checks.key, checks.value))

    def all_fit(self, text: str, batch: Columns) -> bool:
        """Return whether the fast way accepts every record; False where another way has to judge.

        Args:
            text: The topic's `record.validation.policy`.
            batch: The records.

        Raises:
            ValueError: A schema is missing or cannot be used, or a record is not JSON.
        """
        checks, settings = self._checks(text), self._settings
        return (
            checks.key is None or _column_fits(checks.key, batch.keys, settings.null_keys)
        ) and (
            checks.value is None or _column_fits(checks.value, batch.values, settings.null_values)
        )

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return where key and value fit.

        Raises:
            InvalidRecordException: One does not; the text says where and why, in the words of
                the schema.
        """
        checks = self._checks(topic.validation_policy)
        fits, data = checks.fits, record.value
        if fits is not None and data is not None:
            try:
                if fits(data):
                    return
            except Exception:  # noqa: S110 - no answer: the slow way has one
                pass
        objection = self._objection(checks, record)
        if objection is not None:
            raise InvalidRecordException(objection)

    def validate_batch(self, topic: TopicMetadata, batch: Columns) -> Iterator[tuple[int, str]]:
        """Yield the position and the text of each record that `validate` would refuse."""
        key, value, _ = self._checks(topic.validation_policy)
        if key is None:
            assert value is not None
            yield from self._column(value, batch.values, "value", self._settings.null_values)
            return
        refused = dict(self._column(key, batch.keys, "key", self._settings.null_keys))
        if value is not None:
            found = self._column(value, batch.values, "value", self._settings.null_values)
            refused = dict(found) | refused  # the first objection counts: the key's
        yield from sorted(refused.items())

    def _column(
        self, check: Check, column: Sequence[bytes | None], field: str, null: bool
    ) -> Iterator[tuple[int, str]]:
        fits = check.fits
        for position, data in enumerate(column):
            if fits is not None and data is not None:
                try:
                    if fits(data):
                        continue
                except Exception:  # noqa: S110 - no answer: the slow way has one
                    pass
            text = self._slow(check, data, field, null)
            if text is not None:
                yield position, text

    def _objection(self, checks: _TopicChecks, record: RecordProxy) -> str | None:
        settings = self._settings
        for check, data, field, null in (
            (checks.key, record.key, "key", settings.null_keys),
            (checks.value, record.value, "value", settings.null_values),
        ):
            if check is not None:
                for _, text in self._column(check, (data,), field, null):
                    return text
        return None

    def _slow(self, check: Check, data: bytes | None, field: str, null: bool) -> str | None:
        if data is None:
            return None if null else f"the {field} is null"
        return check.objection(data, field)

    def _read(self, text: str) -> _TopicChecks:
        from penstock.policies.json_schema.check import Check  # noqa: PLC0415 - an extra

        names = schema_names(text)
        checks: dict[str, Check] = {}
        for field, name in names.items():
            try:
                files = SchemaFiles(self._folder, name)
                checks[field] = Check(files, formats=self._settings.formats)
            except SchemaError as error:
                raise ValueError(str(error)) from None
        key, value = checks.get("key"), checks.get("value")
        return _TopicChecks(key, value, value.fits if key is None and value else None)


def _column_fits(check: Check, column: Sequence[bytes | None], null: bool) -> bool:
    fits = check.fits
    return fits is not None and all(null if data is None else fits(data) for data in column)
