"""Judges by the schema whose id each key or value carries.

In order: an id is in the required place; the registry knows it; the subject of
the topic's strategy has it; the payload fits completely; the rules are true.
"""

from __future__ import annotations

import time
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from cachetools import LRUCache

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.judge import against_rules, side_of
from penstock.policies.schema_policy.record_names import record_name
from penstock.policies.schema_policy.registry.errors import UnknownSchemaError
from penstock.policies.schema_policy.registry.subjects import subject_of
from penstock.policies.schema_policy.settings import Level
from penstock.policies.schema_policy.wire_format import (
    FramingError,
    SchemaIdLocation,
    check_header,
    groups_of,
    header_name,
    start_of,
)
from penstock.policy import UndecidableException

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Container,
        Iterable,
        Iterator,
        MutableMapping,
        Sequence,
    )

    from penstock.policies.schema_policy.compiled_schemas import Compilation, CompiledSchemas
    from penstock.policies.schema_policy.judge import Column, Headers, PreparedColumn
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.settings import TopicSettings
    from penstock.policies.schema_policy.unusable import UnusableSchemas
    from penstock.policies.schema_policy.wire_format import FramedId, Group
    from penstock.policy import BatchProxy

_USABLE_FOR_S: Final = 1.0
"""How long a usable schema is used without a new request; a refused schema is not kept."""
_USABLE_KEPT: Final = 1000


class _UsableSchema(NamedTuple):
    """A schema that the topic's records may have.

    It is kept without the compiled schema, because `CompiledSchemas` decides how many of these
    are kept.

    Attributes:
        title: Its name in messages.
        expiry_s: When it is requested again, in seconds of the clock.
    """

    title: str
    expiry_s: float


class _Last(NamedTuple):
    """What the last records had, which those after them have as well, mostly.

    Attributes:
        start: What they began with: the id.
        schema: The same as a number.
    """

    start: bytes
    schema: int
    usable: _UsableSchema


class _RecordGroup(NamedTuple):
    """Records of a column that are judged alike.

    Attributes:
        basis: What they are judged by, or why none of them is accepted.
        positions: Where they are in the column.
        compilation: The schema that they are judged by and its rules; None where none is accepted.
        payloads: Of each that is judged, bytes in which its payload is.
        start: Where that starts in them.
        has_subject: Whether it is known which subject the schema has to be under.
    """

    basis: _UsableSchema | str
    positions: Sequence[int]
    compilation: Compilation | None = None
    payloads: Sequence[bytes] = ()
    start: int = 0
    has_subject: bool = True


class RegistryJudge:
    """Judges the keys or the values of a topic by the schemas of a registry.

    Attributes:
        reads_headers: Whether an id may be in a header.
    """

    def __init__(
        self,
        topic: str,
        settings: TopicSettings,
        registry: Registry,
        schemas: CompiledSchemas,
        unusable: UnusableSchemas,
        *,
        is_key: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look nothing up yet.

        Args:
            topic: The topic's name.
            settings: Its topic level keys.
            registry: The responses of the registry, kept for all topics.
            schemas: Compiled schemas, kept for all topics.
            unusable: Decides about records whose schema or rules cannot be used.
            is_key: Whether keys are judged, or values.
            clock: Seconds.
        """
        self._topic = topic
        self._strategy = settings.strategies[is_key]
        self._level, self._latest = settings.level, settings.latest
        self._location, self._id_header = settings.location, settings.header
        self.reads_headers = self._location is not SchemaIdLocation.PREFIX
        self._registry = registry
        self._schemas = schemas
        self._unusable = unusable
        self._accepts_unusable = settings.accepts_unusable
        self._is_key = is_key
        self._header = header_name(is_key=is_key)
        self._side = side_of(is_key=is_key)
        self._clock = clock
        self._last: _Last | None = None
        self._usable: MutableMapping[tuple[int | str, str | None], _UsableSchema] = LRUCache(
            _USABLE_KEPT
        )

    def prepared_as_last(self, batch: BatchProxy) -> PreparedColumn | None:
        """Return the result of `Judge.prepared_as_last`."""
        usable = self._usable_last()
        if usable is None or (self.reads_headers and batch.has_header(self._header)):
            return None
        last, compiled = usable
        payload_reader = batch.keys_after if self._is_key else batch.values_after
        payloads = payload_reader(last.start)
        if payloads is None:
            return None
        part = _RecordGroup(last.usable, range(len(payloads)), compiled, payloads)
        return _ColumnOfRegistry(self, (part,))

    def prepared(self, column: Column, headers: Headers) -> PreparedColumn:
        """Look up and compile the schemas of a column.

        Raises:
            RetriableException: The registry does not answer now.
        """
        self._registry.use_share_of(self._topic)
        groups, without = groups_of(
            column,
            headers,
            is_key=self._is_key,
            location=self._location,
            header=self._id_header,
        )
        parts = [
            _RecordGroup(f"the {self._side} {text}", (position,)) for position, text in without
        ]
        for group in groups:
            parts += self._parts(column, group)
        return _ColumnOfRegistry(self, parts)

    def objections_to(self, part: _RecordGroup) -> Sequence[tuple[int, str]]:
        """Return the positions of refused records, each with a message.

        Raises:
            UndecidableException: The schema or its rules cannot be used, and there is no other
                fault.
        """
        basis, positions, compiled, payloads, start, has_subject = part
        if isinstance(basis, str):
            return [(position, basis) for position in positions]
        if self._level is Level.ID and has_subject:
            return ()
        assert compiled is not None
        if compiled.schema is None:
            self._cannot_judge(f"{basis.title} cannot be judged by: {compiled.problem}", part)
            return ()
        refused = list(compiled.schema.objections(payloads, start))
        if self._level is Level.RULES:
            if compiled.problem_of_rules and not refused:
                text = (
                    f"the rules of {basis.title} cannot be judged by: {compiled.problem_of_rules}"
                )
                self._cannot_judge(text, part)
            try:
                refused += self._against_rules(compiled, part, set(map(itemgetter(0), refused)))
            except InvalidSchemaError as error:
                text = f"the rules of {basis.title} cannot be judged by: {error}"
                self._cannot_judge(text, part)
        if not refused:
            return ()
        begins = f"the {self._side} does not fit {basis.title}: "
        return [(positions[index], begins + message) for index, message in refused]

    def _cannot_judge(self, text: str, part: _RecordGroup) -> None:
        self._unusable.decide(text, len(part.positions), accepts=self._accepts_unusable)

    def load(self) -> None:
        """Look up the latest schema of the topic's subject, as the first record with it would.

        Where records say which subject, or where it has no schema yet, nothing is known before.

        Raises:
            RetriableException: The registry does not answer now.
        """
        self._registry.use_share_of(self._topic)
        subject = subject_of(self._strategy, self._topic, None, is_key=self._is_key)
        latest = None if subject is None else self._registry.latest(subject)
        schema_id = None if latest is None else latest[0].schema_id
        if schema_id is not None:
            with suppress(UnknownSchemaError):  # it is deleted just now
                self._resolve(schema_id, self._registry.schema(schema_id), None)

    def describe(self) -> Iterator[str]:
        """Yield lines that say which schemas the registry has for the topic now.

        Raises:
            RetriableException: The registry does not answer now.
        """
        if self._strategy.needs_record_name:
            yield f"{self._side}: the records say which subject ({self._strategy.value})"
            return
        subject = subject_of(self._strategy, self._topic, None, is_key=self._is_key)
        latest = self._registry.latest(subject or "")
        if latest is None:
            yield (
                f"{self._side}: subject {subject} has no schema: every {self._side} that is not "
                "null is refused"
            )
            return
        registered, version = latest
        which = f"version {version} alone" if self._latest else f"any version, now up to {version}"
        yield (
            f"{self._side}: subject {subject}, {which} ({registered.schema_type}, "
            f"id {registered.schema_id}), judged by {self._level.value}"
        )
        compiled = self._schemas.of(registered, registered.schema_id or 0)
        passes = "; its records pass all the same" if self._accepts_unusable else ""
        if self._level is not Level.ID and compiled.problem:
            yield f"  cannot be judged by: {compiled.problem}{passes}"
        elif self._level is Level.RULES and compiled.problem_of_rules:
            yield f"  its rules cannot be judged by: {compiled.problem_of_rules}{passes}"
        if compiled.rules is not None:
            yield from (f"  not run: {rule}" for rule in compiled.rules.not_run)

    def _usable_last(self) -> tuple[_Last, Compilation] | None:
        """Return the schema of the last records, if it may still be used without a request."""
        last = self._last
        if last is None or self._clock() >= last.usable.expiry_s:
            return None
        compiled = self._schemas.kept(last.schema)
        return None if compiled is None else (last, compiled)

    def _parts(self, column: Column, group: Group) -> Iterator[_RecordGroup]:
        """Yield the records of a group by the schemas that they are judged by."""
        framed, positions = group.framed_id, group.positions
        try:
            registered = self._registry.schema(framed.schema)
        except UnknownSchemaError:
            text = f"the {self._side} has {_named(framed.schema)}, which the registry does not know"
            yield _RecordGroup(text, positions)
            return
        try:
            check_header(framed, registered.schema_type)
        except FramingError as error:
            yield _RecordGroup(f"the {self._side} {error}", positions)
            return
        payloads = _payloads(column, group)
        if self._strategy.needs_record_name and registered.schema_type == "PROTOBUF":
            yield from self._by_message(framed, registered, positions, payloads)
            return
        name = record_name(registered) if self._strategy.needs_record_name else None
        basis, compiled = self._resolve(framed.schema, registered, name)
        if isinstance(basis, _UsableSchema) and isinstance(framed.schema, int) and framed.start:
            self._last = _Last(start_of(framed.schema), framed.schema, basis)
        yield _RecordGroup(basis, positions, compiled, payloads, framed.start)

    def _by_message(
        self,
        framed: FramedId,
        registered: RegisteredSchema,
        positions: Sequence[int],
        payloads: Sequence[bytes],
    ) -> Iterator[_RecordGroup]:
        """Do `_parts` where the subject is named after the Protobuf message of each payload."""
        types = self._schemas.of(registered, framed.schema)
        if types.schema is None:  # so it is unknown which subject it has to be under
            named = _UsableSchema(_named(framed.schema), self._clock())
            yield _RecordGroup(named, positions, types, payloads, framed.start, has_subject=False)
            return
        by_name: dict[str | None, list[int]] = {}
        for index, payload in enumerate(payloads):
            name = types.message_name(payload[framed.start :])
            by_name.setdefault(name, []).append(index)
        for name, indexes in by_name.items():
            basis, compiled = self._resolve(framed.schema, registered, name)
            yield _RecordGroup(
                basis,
                [positions[index] for index in indexes],
                compiled,
                [payloads[index] for index in indexes],
                framed.start,
            )

    def _against_rules(
        self, compiled: Compilation, part: _RecordGroup, unfit: Container[int]
    ) -> Iterable[tuple[int, str]]:
        """Return which payloads are against rules, and how, apart from those that do not fit."""
        rules = compiled.rules
        if rules is None or rules.is_empty:
            return ()
        assert compiled.schema is not None
        return against_rules(rules, compiled.schema, part.payloads, unfit, part.start)

    def _resolve(
        self, schema: int | str, registered: RegisteredSchema, name: str | None
    ) -> tuple[_UsableSchema | str, Compilation | None]:
        """Return the schema and its compiled form; or why it may not be used."""
        usable = self._usable.get((schema, name))
        if usable is not None and self._clock() < usable.expiry_s:
            return usable, self._schemas.of(registered, schema)
        basis, compiled = self._found(schema, registered, name)
        if isinstance(basis, _UsableSchema):
            self._usable[schema, name] = basis
        else:
            self._usable.pop((schema, name), None)
        return basis, compiled

    def _found(
        self, schema: int | str, registered: RegisteredSchema, name: str | None
    ) -> tuple[_UsableSchema | str, Compilation | None]:
        has = f"the {self._side} has {_named(schema)}"
        subject = subject_of(self._strategy, self._topic, name, is_key=self._is_key)
        if subject is None:
            return f"{has}, whose record has no name to make a subject of", None
        if registered.schema_id is None:
            return f"{has}, which has no id, and so no subject", None
        versions = [
            version
            for name, version in self._registry.subject_versions(registered.schema_id, subject)
            if name == subject
        ]
        if not versions:
            return f"{has}, which is not under subject {subject}", None
        version = max(versions)
        if self._latest:
            latest = self._registry.latest(subject)
            # A version that is newer than the kept version is the latest.
            if latest is not None and version < latest[1]:
                return (
                    f"{has}, version {version} of subject {subject}, whose latest is {latest[1]}",
                    None,
                )
        compiled = self._schemas.of(registered, schema)
        title = f"schema {subject} version {version} (id {registered.schema_id})"
        return _UsableSchema(title, self._clock() + _USABLE_FOR_S), compiled


class _ColumnOfRegistry(NamedTuple):
    """Implements `PreparedColumn`."""

    judge: RegistryJudge
    parts: Sequence[_RecordGroup]

    def objections(self) -> Iterator[tuple[int, str]]:
        undecidable: UndecidableException | None = None
        for part in self.parts:
            try:
                yield from self.judge.objections_to(part)
            except UndecidableException as error:
                undecidable = undecidable or error
        if undecidable is not None:
            raise undecidable


def _payloads(column: Column, group: Group) -> Sequence[bytes]:
    framed, positions = group
    some = column if len(positions) == len(column) else [column[position] for position in positions]
    payloads = cast("Sequence[bytes]", some)  # null is in no group
    if framed.message_indexes:
        payloads = [framed.message_indexes + payload for payload in payloads]
    return payloads


def _named(schema: int | str) -> str:
    return f"schema id {schema}" if isinstance(schema, int) else f"schema {schema}"
