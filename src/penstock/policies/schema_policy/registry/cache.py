"""Keeps a registry's responses, and requests them again when they may have changed."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from cachetools import LRUCache, TTLCache

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.registry.budget import Shares
from penstock.policies.schema_policy.registry.contexts import QualifiedSubject
from penstock.policies.schema_policy.registry.errors import (
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.kept_answers import NothingKept
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from penstock.policies.schema_policy.registered import RegisteredSchema, SchemaReference
    from penstock.policies.schema_policy.registry.kept_answers import KeptAnswer, KeptAnswers
    from penstock.policies.schema_policy.registry.refresher import Refresher

MOST_SCHEMAS: Final = 10_000
MOST_CHARACTERS: Final = 64 * 1024 * 1024
"""The size of all kept schemas together, in characters."""
MISS_SECONDS: Final = 2.0
"""For how long it counts that a registry did not know something."""
MISS_SECONDS_AT_MOST: Final = 60.0
"""How long it is kept if the registry gets too many requests to repeat this request: a batch with
that many unknown ids is judged in the end, and is not retried permanently."""
REREAD_SECONDS: Final = 0.25
"""After what time it is requested once more: it may have been registered just now."""
SUBJECTS_SECONDS: Final = 300.0
LATEST_SECONDS: Final = 30.0
STALE_SECONDS: Final = 10.0
"""For how much longer an expired response is used, each time that the registry is away."""
STALE_AT_MOST: Final = 7 * 86_400.0
"""How long a response is used while the registry is away."""
PATIENCE_S: Final = 1.0
"""How long a batch waits in all until recently confirmed responses are confirmed again."""
LATELY_S: Final = 2 * SUBJECTS_SECONDS
_LONGEST_WAIT_S: Final = 3600.0
MISSES: Final = 100
MISSES_PER_SECOND: Final = 10.0
"""How many look-ups for a topic may find nothing: at once, and after that."""
OWN_MISSES: Final = 20
OWN_MISSES_PER_SECOND: Final = 2.0
"""How many of these are the topic's own; the others are those of all topics together."""
MOST_REFERENCES: Final = 1000
MOST_SOURCE: Final = 8 * 1024 * 1024
"""The bounds of a schema with all that it refers to."""
_MOST_SUBJECTS: Final = 200_000
"""How many pairs of subject and version are kept."""

_TOO_MANY: Final = (
    "too many schemas are requested that the schema registry does not have; they are requested "
    "again in a moment"
)

_SUBJECTS_OF: Final = "subjects/{}"
_Key: TypeAlias = "int | str | tuple[str, int]"
_Found = TypeVar("_Found")
_Named = TypeVar("_Named")


class Client(Protocol):
    """The source of responses: a `RegistryClient`."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema: ...
    def schema_by_guid(self, guid: str) -> RegisteredSchema: ...
    def subject_versions(self, schema_id: int) -> Sequence[tuple[str, int]]: ...
    def latest(self, subject: str) -> tuple[RegisteredSchema, int]: ...
    def schema_of_version(self, subject: str, version: int) -> RegisteredSchema: ...
    def allow(self, seconds: float) -> None: ...
    def close(self) -> None: ...


class _Miss(NamedTuple):
    """A response of the registry that it does not have something.

    Attributes:
        sent_s: When the request was sent, in seconds of the clock.
        text: The error message.
        is_last: Whether it is not requested again soon.
    """

    sent_s: float
    text: str
    is_last: bool


class _KeptResponse(NamedTuple, Generic[_Found]):
    """A response that may change.

    Attributes:
        expiry_s: Until when it is used, in seconds of the clock.
        sent_s: When the request was sent, as `KeptAnswers.now`.
    """

    value: _Found
    expiry_s: float
    sent_s: float


class Registry:
    """A registry's schemas. It is used by one thread in a policy's worker.

    What a schema's id or GUID means never changes, so it is kept as long as there is room. A
    missing schema may be registered, so misses count for two seconds, and within these it is
    requested once more. A client that invents ids costs the registry ten requests a second, two
    for each topic more, and removes no kept schema: further ids are answered with
    `RetriableException` without a request. Each topic has a separate share, and does not wait for
    the records of another topic.

    Which subjects have a schema, and which version is a subject's latest, is read again after a
    while; as long as the registry is away, its last response is used, for a week at most, so that
    known schemas are used as before. If others keep answers, too (`KeptAnswers`), only what
    none of them knows is requested.
    """

    def __init__(
        self,
        client: Client,
        clock: Callable[[], float] = monotonic,
        *,
        shared_answers: KeptAnswers | None = None,
        refresher: Refresher[Client] | None = None,
    ) -> None:
        """Send no request yet.

        Args:
            client: The registry's client.
            clock: Seconds.
            shared_answers: Responses that are shared with other processes; not shared by default.
            refresher: Refreshes known responses, so that no batch has to wait for them; by default
                the client does that.
        """
        self._client = client
        self._clock = clock
        self._kept_answers = shared_answers or NothingKept()
        self._refresher = refresher
        self._patience = PATIENCE_S
        self._age = 0.0  # of the last response: seconds since its request
        self._allowance_end = inf
        self._topic = ""
        self._budget, self._rereads = (
            Shares(
                MISSES,
                MISSES_PER_SECOND,
                own_tokens=OWN_MISSES,
                own_per_second=OWN_MISSES_PER_SECOND,
                clock=clock,
            )
            for _ in range(2)
        )
        self._schemas: LRUCache[_Key, RegisteredSchema] = LRUCache(MOST_CHARACTERS, _size)
        self._versions: LRUCache[int, _KeptResponse[Sequence[tuple[str, int]]]] = LRUCache(
            _MOST_SUBJECTS, lambda entry: 20 + len(entry.value)
        )
        self._latest: LRUCache[str, _KeptResponse[tuple[RegisteredSchema, int]]] = LRUCache(
            MOST_CHARACTERS, lambda entry: _size(entry.value[0])
        )
        self._misses: TTLCache[object, _Miss] = TTLCache(MOST_SCHEMAS, MISS_SECONDS_AT_MOST, clock)
        self._not_under: TTLCache[tuple[int, str], None] = TTLCache(
            MOST_SCHEMAS, MISS_SECONDS, clock
        )
        self._failures: TTLCache[object, str] = TTLCache(MOST_SCHEMAS, MISS_SECONDS / 2, clock)

    def use_share_of(self, topic: str) -> None:
        """Bound the number of later look-ups that find nothing by the share of a topic."""
        self._topic = topic

    def allow(self, seconds: float) -> None:
        """Set the time that all later look-ups have together."""
        self._client.allow(seconds)
        self._allowance_end = self._clock() + seconds
        self._patience = PATIENCE_S

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        if self._refresher is not None:
            self._refresher.close()

    def schema(self, schema: int | str) -> RegisteredSchema:
        """Return a schema by its id or GUID.

        A schema whose versions were deleted softly is returned, too: see
        `RegistryClient.schema_by_id`.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry is away, does not respond, or gets too many
                requests.
        """
        registered_schema = self._schemas.get(schema)
        if registered_schema is None:
            request = f"schemas/{schema}"
            answer = self._kept_answers.schema(request)
            if answer is not None:  # it never changes
                registered_schema = answer.value
            else:
                registered_schema = self._request(schema, lambda: self._by_name(schema))
                if registered_schema.schema_id is not None:  # which it might get
                    self._kept_answers.keep_schema(request, registered_schema)
            _keep(self._schemas, schema, registered_schema)
        return registered_schema

    def is_known(self, schema: int | str, subject: str | None = None) -> bool:
        """Return whether these methods return without a request to the registry.

        Args:
            schema: The argument of `schema`.
            subject: The argument of `subject_versions`; None if only `schema` is called.
        """
        registered_schema = self._schemas.get(schema)
        if registered_schema is None or subject is None:
            return registered_schema is not None
        entry = (
            None
            if registered_schema.schema_id is None
            else self._versions.get(registered_schema.schema_id)
        )
        return entry is not None and self._clock() < entry.expiry_s and _has(entry.value, subject)

    def subject_versions(
        self, schema_id: int, subject: str | None = None
    ) -> Sequence[tuple[str, int]]:
        """Return the subjects that have a schema, each with its version there.

        A response is used for five minutes, unless it lacks the required subject, which may have
        been registered since. It is then read again: for each id and subject at most every two
        seconds, and for all together as often as for schemas that the registry does not have.

        Args:
            schema_id: The schema's id.
            subject: The required subject, if any.

        Returns:
            The pairs; none if the registry does not have the schema. Versions that were deleted
            softly are left out: nothing new is written with them.

        Raises:
            RetriableException: As in `schema`.
        """
        entry = self._known_versions(schema_id)
        now = self._clock()
        has = entry is not None and (subject is None or _has(entry.value, subject))
        if entry is not None and now < entry.expiry_s:
            if has or (schema_id, subject) in self._not_under:
                return entry.value
            if self._rereads.is_spent(self._topic):
                raise RetriableException(_TOO_MANY)
        try:
            pairs = self._request(
                ("subjects of", schema_id),
                lambda: self._refresh(
                    ("subjects of", schema_id),
                    entry if has else None,
                    lambda client: client.subject_versions(schema_id),
                ),
            )
        except UnknownSchemaError:
            pairs = ()
        except RetriableException:
            if entry is None or not has or self._is_too_old(entry):
                raise
            _keep(self._versions, schema_id, entry._replace(expiry_s=now + STALE_SECONDS))
            return entry.value
        self._record_missing(schema_id, subject, pairs, was_known=entry is not None)
        answer = self._newest(pairs, SUBJECTS_SECONDS)
        _keep(self._versions, schema_id, answer)
        self._kept_answers.keep_versions(_SUBJECTS_OF.format(schema_id), pairs, answer.sent_s)
        return pairs

    def _known_versions(self, schema_id: int) -> _KeptResponse[Sequence[tuple[str, int]]] | None:
        entry = self._versions.get(schema_id)
        if entry is not None and self._clock() < entry.expiry_s:
            return entry
        answer = self._kept_answers.versions(_SUBJECTS_OF.format(schema_id))
        newer_entry = self._newer(entry, answer, SUBJECTS_SECONDS)
        if newer_entry is not None and newer_entry is not entry:
            _keep(self._versions, schema_id, newer_entry)
        return newer_entry

    def _record_missing(
        self, schema_id: int, subject: str | None, pairs: Sequence[tuple[str, int]], was_known: bool
    ) -> None:
        """Record that a subject was not found."""
        if subject is None or _has(pairs, subject):
            return
        if was_known:
            self._rereads.spend(self._topic)
        self._not_under[schema_id, subject] = None

    def latest(self, subject: str) -> tuple[RegisteredSchema, int] | None:
        """Return the latest version of a subject and its number; they are used for half a minute.

        Returns:
            None if the registry does not have the subject.

        Raises:
            RetriableException: As in `schema`.
        """
        request = f"latest/{subject}"
        entry = self._latest.get(subject)
        now = self._clock()
        if entry is None or now >= entry.expiry_s:
            entry = self._newer(entry, self._kept_answers.latest(request), LATEST_SECONDS)
        if entry is not None and now < entry.expiry_s:
            return entry.value
        try:
            latest_version = self._request(
                ("latest", subject),
                lambda: self._refresh(
                    ("latest", subject), entry, lambda client: client.latest(subject)
                ),
            )
        except UnknownSchemaError:
            if entry is not None:
                self._latest.pop(subject, None)
                self._kept_answers.forget(request)
            return None
        except RetriableException:
            if entry is None or self._is_too_old(entry):
                raise
            _keep(self._latest, subject, entry._replace(expiry_s=now + STALE_SECONDS))
            return entry.value
        answer = self._newest(latest_version, LATEST_SECONDS)
        _keep(self._latest, subject, answer)
        self._kept_answers.keep_latest(request, *latest_version, answer.sent_s)
        return latest_version

    def source(self, schema: RegisteredSchema) -> SchemaSource:
        """Return a schema with all that it refers to, and that those refer to.

        A name that several of them use is resolved by the first: a schema before its
        references, and references in their order, as in Confluent's serializers
        (`AbstractSchemaProvider`). So circles end. Subjects without a context are in that of the
        schema that refers to them.

        Raises:
            InvalidSchemaError: A schema is not in the registry, or there is too much of it.
            RetriableException: As in `schema`. The schemas that were found until then are kept, so
                a second call gets further.
        """
        texts: dict[str, str] = {}
        size = len(schema.text)
        stack = list(reversed(_references(schema)))
        while stack:
            reference = stack.pop()
            if reference.name in texts:
                continue
            referred = self._referred(reference)
            texts[reference.name] = referred.text
            size += len(referred.text)
            if len(texts) > MOST_REFERENCES or size > MOST_SOURCE:
                raise InvalidSchemaError(
                    f"refers to more than {MOST_REFERENCES} schemas, or to more than "
                    f"{MOST_SOURCE} characters of them"
                )
            stack.extend(reversed(_references(referred)))
        return SchemaSource(schema.schema_type, schema.text, texts)

    def _referred(self, reference: SchemaReference) -> RegisteredSchema:
        subject, version = reference.subject, reference.version
        try:
            if version < 0:
                latest = self.latest(subject)
                if latest is None:
                    raise UnknownSchemaError(f"subject {subject} is not in the schema registry")
                return latest[0]
            return self._of_version(subject, version)
        except UnknownSchemaError as error:
            raise InvalidSchemaError(f"refers to {reference.name}, and {error}") from None

    def _of_version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a subject's version. It never changes, unless it is deleted for good."""
        key = subject, version
        registered_schema = self._schemas.get(key)
        if registered_schema is not None:
            return registered_schema
        request = f"versions/{version}/{subject}"
        entry = self._newer(None, self._kept_answers.schema(request), SUBJECTS_SECONDS)
        if entry is not None and self._clock() < entry.expiry_s:
            registered_schema = entry.value
        else:
            try:
                registered_schema = self._request(
                    key,
                    lambda: self._refresh(
                        key, entry, lambda client: client.schema_of_version(subject, version)
                    ),
                )
            except RetriableException:
                if entry is None or self._is_too_old(entry):
                    raise
                return entry.value
            self._kept_answers.keep_schema(
                request, registered_schema, self._kept_answers.now() - self._age
            )
        _keep(self._schemas, key, registered_schema)
        return registered_schema

    def _by_name(self, schema: int | str) -> RegisteredSchema:
        if isinstance(schema, int):
            return self._client.schema_by_id(schema)
        return self._client.schema_by_guid(schema)

    def _newer(
        self, entry: _KeptResponse[_Found] | None, answer: KeptAnswer[_Found] | None, seconds: float
    ) -> _KeptResponse[_Found] | None:
        """Return the last response of this process or another, used until `seconds` after it."""
        if answer is None or (entry is not None and answer.sent_s <= entry.sent_s):
            return entry
        age = max(0.0, self._kept_answers.now() - answer.sent_s)
        return _KeptResponse(answer.value, self._clock() + seconds - age, answer.sent_s)

    def _newest(self, value: _Found, seconds: float) -> _KeptResponse[_Found]:
        """Return a new response, which is used until `seconds` after its request."""
        return _KeptResponse(
            value, self._clock() + seconds - self._age, self._kept_answers.now() - self._age
        )

    def _is_too_old(self, entry: _KeptResponse[_Found]) -> bool:
        return self._kept_answers.now() - entry.sent_s > STALE_AT_MOST

    def _refresh(
        self, key: object, entry: _KeptResponse[_Found] | None, send: Callable[[Client], _Found]
    ) -> _Found:
        """Send a request; wait only briefly for its response if the last response is recent."""
        began = self._clock()
        if entry is None or self._refresher is None:
            try:
                return send(self._client)
            finally:
                self._age = self._clock() - began
        is_lately = self._kept_answers.now() - entry.sent_s <= LATELY_S
        wait = self._patience if is_lately else min(self._allowance_end - began, _LONGEST_WAIT_S)
        try:
            return self._refresher.request(key, send, wait)
        finally:
            self._age = self._refresher.age
            if is_lately:
                self._patience -= self._clock() - began

    def _request(self, key: object, request: Callable[[], _Found]) -> _Found:
        """Send a request, unless the registry has just failed to respond, or did not have it."""
        failure = self._failures.get(key)
        if failure is not None:
            raise RetriableException(failure)
        miss = self._misses.get(key)
        age = 0.0 if miss is None else self._clock() - miss.sent_s
        if miss is not None and age < (MISS_SECONDS if miss.is_last else REREAD_SECONDS):
            raise UnknownSchemaError(miss.text)
        budget = self._budget if miss is None else self._rereads
        if budget.is_spent(self._topic):
            if miss is not None:
                raise UnknownSchemaError(miss.text)
            raise RetriableException(_TOO_MANY)
        self._age = 0.0
        try:
            answer = request()
        except UnknownSchemaError as error:
            budget.spend(self._topic)
            again = miss is not None and age < MISS_SECONDS
            self._misses[key] = _Miss(self._clock() - self._age, str(error), is_last=again)
            raise
        except RegistryAwayException:
            raise  # the client then sends no request for a second
        except RetriableException as error:
            budget.spend(self._topic)
            self._failures[key] = str(error)
            raise
        if self._refresher is not None:
            self._refresher.is_away = False
        return answer


def _references(schema: RegisteredSchema) -> Sequence[SchemaReference]:
    """Return the references of a schema, with subjects as in requests."""
    if not schema.context:
        return schema.references
    return [
        reference._replace(subject=str(QualifiedSubject.read(reference.subject, schema.context)))
        for reference in schema.references
    ]


def _size(schema: RegisteredSchema) -> int:
    """Return the size that a schema counts as, so that there are at most `MOST_SCHEMAS`."""
    length = len(schema.text) + len(repr(schema.metadata)) + len(repr(schema.rule_set))
    return max(length, MOST_CHARACTERS // MOST_SCHEMAS)


def _has(pairs: Sequence[tuple[str, int]], subject: str) -> bool:
    return any(name == subject for name, _ in pairs)


def _keep(cache: MutableMapping[_Named, _Found], key: _Named, value: _Found) -> None:
    """Keep a value, unless it is larger than the cache."""
    with suppress(ValueError):
        cache[key] = value
