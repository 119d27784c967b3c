"""Judges by the schema whose id each key or value carries.

In order: an id is there, in the place where it has to be; the registry knows it; the subject that
the topic's strategy names has it; the payload fits to its very end; the rules hold.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from penstock.policies.schema_policy.judge import side_of
from penstock.policies.schema_policy.registry import UnknownSchemaError
from penstock.policies.schema_policy.registry.subjects import record_name, subject_of
from penstock.policies.schema_policy.settings import Level
from penstock.policies.schema_policy.wire_format import FramingError, Location, find_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence

    from penstock.policies.schema_policy.compiled_schemas import Compiled, CompiledSchemas
    from penstock.policies.schema_policy.judge import Column, Headers
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry import Registry
    from penstock.policies.schema_policy.settings import TopicSettings
    from penstock.policy import Header

_RESOLVED_FOR_S: Final = 1.0
"""How long a schema that may be used is not asked for again; a refused one is, each time."""
_RESOLVED_KEPT: Final = 1000
_NO_HEADERS: Final[Sequence[Header]] = ()


class _Usable(NamedTuple):
    """A schema by which the topic's records may be written.

    Attributes:
        compiled: The schema and its rules.
        title: What messages call it.
        until: When the registry is asked again, in seconds of the clock.
    """

    compiled: Compiled
    title: str
    until: float


class _Group(NamedTuple):
    """Payloads with the same schema: their positions in the column, and the bytes after the id."""

    positions: Sequence[int]
    payloads: Sequence[bytes]


class RegistryJudge:
    """Judges the keys or the values of one topic by the schemas of a registry."""

    def __init__(
        self,
        topic: str,
        settings: TopicSettings,
        registry: Registry,
        schemas: CompiledSchemas,
        *,
        is_key: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._strategy = settings.strategies[is_key]
        self._level, self._latest = settings.level, settings.latest
        self._location = settings.location
        self._registry = registry
        self._schemas = schemas
        self._is_key = is_key
        self._side = side_of(is_key=is_key)
        self._clock = clock
        self._usable: MutableMapping[int | str, _Usable] = LRUCache(_RESOLVED_KEPT)
        self.reads_headers = self._location is not Location.PREFIX

    def prepare(self, column: Column, headers: Headers) -> None:
        """Look up and compile the schemas of a column."""
        groups: dict[int | str, _Group] = {}
        for _ in self._grouped(column, headers, groups):
            pass  # said again by `objections`
        for schema in groups:
            self._resolve(schema)

    def objections(self, column: Column, headers: Headers) -> Iterable[tuple[int, str]]:
        """Yield what `Judge.objections` says."""
        groups: dict[int | str, _Group] = {}
        yield from self._grouped(column, headers, groups)
        for schema, group in groups.items():
            usable = self._resolve(schema)
            if isinstance(usable, str):
                yield from ((position, usable) for position in group.positions)
            elif self._level is not Level.ID:
                yield from self._objections_by(usable, group)

    def _grouped(
        self, column: Column, headers: Headers, groups: dict[int | str, _Group]
    ) -> Iterator[tuple[int, str]]:
        """Put payloads into groups by their schema; yield those that have none."""
        for position, data in enumerate(column):
            if data is None:
                continue
            own = headers[position] if headers else _NO_HEADERS
            try:
                schema, start = find_id(data, own, is_key=self._is_key, location=self._location)
            except FramingError as error:
                yield position, f"the {self._side} {error}"
                continue
            group = groups.get(schema)
            if group is None:
                group = groups[schema] = _Group([], [])
            group.positions.append(position)  # type: ignore[attr-defined]
            group.payloads.append(data[start:] if start else data)  # type: ignore[attr-defined]

    def _objections_by(self, usable: _Usable, group: _Group) -> Iterator[tuple[int, str]]:
        compiled, begins = usable.compiled, f"the {self._side} does not fit {usable.title}: "
        assert compiled.schema is not None
        refused = set()
        for index, message in compiled.schema.objections(group.payloads):
            refused.add(index)
            yield group.positions[index], begins + message
        rules = compiled.rules
        if self._level is not Level.RULES or rules is None or rules.is_empty:
            return
        for index, payload in enumerate(group.payloads):
            if index in refused:
                continue
            value = compiled.schema.decode(payload)
            objection = rules.objection(value, topic=self._topic, is_key=self._is_key)
            if objection is not None:
                yield group.positions[index], begins + objection

    def _resolve(self, schema: int | str) -> _Usable | str:
        """Return what to judge by, or why the schema may not be used."""
        usable = self._usable.get(schema)
        if usable is not None and self._clock() < usable.until:
            return usable
        found = self._found(schema)
        if isinstance(found, _Usable):
            self._usable[schema] = found
        else:
            self._usable.pop(schema, None)
        return found

    def _found(self, schema: int | str) -> _Usable | str:
        named = f"schema id {schema}" if isinstance(schema, int) else f"schema {schema}"
        try:
            registered = self._registry.schema(schema)
        except UnknownSchemaError:
            return f"the {self._side} has {named}, which the schema registry does not know"
        compiled = self._schemas.of(registered, schema)
        place = self._version(registered, compiled, named)
        if isinstance(place, str):
            return place
        subject, version = place
        title = f"schema {subject} version {version} ({named.removeprefix('schema ')})"
        if self._level is not Level.ID and compiled.problem:
            return f"{title} cannot be judged by: {compiled.problem}"
        if self._level is Level.RULES and compiled.problem_of_rules:
            return f"the rules of {title} cannot be judged by: {compiled.problem_of_rules}"
        return _Usable(compiled, title, self._clock() + _RESOLVED_FOR_S)

    def _version(
        self, registered: RegisteredSchema, compiled: Compiled, named: str
    ) -> tuple[str, int] | str:
        """Return the subject and the version of a schema for the topic, or why it has none."""
        names = record_names(registered, compiled)
        subjects = [
            subject_of(self._strategy, self._topic, name, is_key=self._is_key) for name in names
        ]
        if not subjects:
            return f"the {self._side} has {named}, whose record has no name to make a subject of"
        schema_id = registered.schema_id
        for subject in subjects:
            found = self._registry.version_under(registered, subject)
            if found is None:
                continue
            if self._latest:
                latest = self._registry.latest(subject)
                if latest is not None and latest[1] != found:
                    return (
                        f"the {self._side} has {named}, version {found} of subject {subject}, "
                        f"whose latest is {latest[1]}"
                    )
            return subject, found
        del schema_id
        return f"the {self._side} has {named}, which is not under subject {' or '.join(subjects)}"
