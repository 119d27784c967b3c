"""The requests to a schema registry: a few GETs of Confluent's API.

Each look-up is one request, or two for a GUID. A request takes no longer than
`schema.registry.timeout.ms` over all URLs. Source: Confluent's "Schema Registry API reference".
Only newer registries know GUIDs.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from penstock.policies.schema_policy.registry import answers
from penstock.policies.schema_policy.registry.answers import UnreadableAnswerError
from penstock.policies.schema_policy.registry.contexts import QualifiedSubject
from penstock.policies.schema_policy.registry.endpoint import Endpoint
from penstock.policies.schema_policy.registry.errors import (
    NoAnswerError,
    RegistryAwayException,
    UnknownSchemaError,
)
from penstock.policies.schema_policy.registry.oauth import TokenSource
from penstock.policy import RetriableException, count_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry.settings import RegistrySettings

LOOKUP: Final = "schema_registry_lookup"
"""What look-ups are counted as, with `found`, `unknown` or `failed`."""
PAUSE: Final = 1.0
"""Seconds for which a URL that is away gets no requests."""
_TOO_LONG_FOR_ALL: Final = (
    "the schema registry takes too long for all requests together; they are sent again"
)
_LATEST: Final = -1
_AWAY: Final = frozenset({401, 403, 407, 429, 502, 503, 504})
"""Status codes with which any other request would be answered now, too."""
_Read = TypeVar("_Read")


def token_source(
    settings: RegistrySettings, clock: Callable[[], float] = monotonic
) -> TokenSource | None:
    """Return the source of tokens for settings; None if they have no token endpoint."""
    if settings.oauth is None:
        return None
    return TokenSource(settings.oauth, Endpoint(settings.oauth.url, settings), clock)


class RegistryClient:
    """Looks up schemas; keeps no answers. It is used by one thread.

    The URL that was successful last is queried first. If a URL is away, rejects our login, has a
    server error or gives an invalid response, the next URL is queried; also if a URL does
    not know the schema, since it may be a copy that is behind. It is unknown if none of
    those that answer knows it. A URL that is away is left alone for a second.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        clock: Callable[[], float] = monotonic,
        *,
        tokens: TokenSource | None = None,
    ) -> None:
        """Send no request yet.

        Args:
            settings: Where the registry is, and how it lets us in.
            clock: Seconds, for pauses.
            tokens: Where tokens come from, if the settings have a token endpoint; others may use
                it as well.
        """
        self._tokens = tokens or token_source(settings, clock)
        self._endpoints = [Endpoint(url, settings, self._tokens) for url in settings.urls]
        self._context = settings.context
        self._timeout = settings.timeout
        self._clock = clock
        self._allowance_end = self._allowance_s = inf
        self._problem = ""

    def allow(self, seconds: float) -> None:
        """Set the time that all later look-ups have together.

        Requests after it raise a `RegistryAwayException`, until `allow` is called again.
        """
        self._allowance_s = seconds
        self._allowance_end = self._clock() + seconds

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """Look up a schema by its id.

        A schema of a version that was deleted softly is found: a registry keeps it so that what
        was written with it can be read. Whether new records may be written with it is for
        `subject_versions` to say, which leaves such versions out.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry does not respond; a `RegistryAwayException` if no URL
                can be queried now.
        """
        schema = self._get(f"/schemas/ids/{schema_id}", f"schema {schema_id}", answers.schema)
        return schema._replace(schema_id=schema_id)

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """Look up a schema by its GUID, and its id, which a registry distinguishes.

        Args:
            guid: In lower case with hyphens.

        Returns:
            The schema; without `schema_id` where it has none in the context of the URL.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry does not respond, or does not support GUIDs.
        """
        schema = self._get(f"/schemas/guids/{guid}", f"schema {guid}", answers.schema)
        schema_id = self._get(
            f"/schemas/guids/{guid}/ids",
            f"schema {guid}",
            lambda body: answers.id_in_context(body, self._context),
        )
        return schema._replace(schema_id=schema_id, guid=guid)

    def subject_versions(self, schema_id: int) -> tuple[tuple[str, int], ...]:
        """Look up the subjects that have a schema, each with its version there.

        Versions that were deleted, softly or not, are left out. A subject of the URL's context is
        given by its name within it.

        Raises:
            UnknownSchemaError: There is no such schema.
            RetriableException: The registry does not say.
        """
        path = f"/schemas/ids/{schema_id}/versions"
        pairs = self._get(path, f"schema {schema_id}", answers.subject_versions)
        return tuple(
            (QualifiedSubject.read(name).within(self._context), version) for name, version in pairs
        )

    def latest(self, subject: str) -> tuple[RegisteredSchema, int]:
        """Look up the latest version of a subject that is not deleted, and its number.

        If the default context does not have the subject, a registry returns that of any other
        context: it is unknown then, as its id has another meaning here.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry does not respond.
        """
        subject_context = QualifiedSubject.read(subject, self._context).context
        schema, version, context = self._get(
            f"/subjects/{quote(subject, safe='')}/versions/latest",
            f"subject {subject}",
            lambda body: (
                answers.schema(body),
                answers.version(body),
                answers.context(body, subject_context),
            ),
        )
        if context != subject_context:
            raise UnknownSchemaError(
                f"subject {subject} is not in the context {subject_context} of the schema registry"
            )
        return schema._replace(context=self._other(context)), version

    def schema_of_version(self, subject: str, version: int) -> RegisteredSchema:
        """Look up what another schema refers to; a version that was deleted softly is found.

        Args:
            version: Its number; -1 for the latest.

        Raises:
            UnknownSchemaError: The registry does not have it.
            RetriableException: The registry does not respond.
        """
        number = "latest" if version == _LATEST else f"{version}?deleted=true"
        context = QualifiedSubject.read(subject, self._context).context
        return self._get(
            f"/subjects/{quote(subject, safe='')}/versions/{number}",
            f"version {version} of subject {subject}",
            lambda body: answers.schema(body)._replace(
                context=self._other(answers.context(body, context))
            ),
        )

    def _other(self, context: str) -> str:
        """Return a context, or nothing for that of the URL."""
        return "" if context == self._context else context

    def close(self) -> None:
        """Close the connections."""
        for endpoint in self._endpoints:
            endpoint.close()
        if self._tokens is not None:
            self._tokens.close()

    def _get(self, path: str, what: str, reader: Callable[[bytes], _Read]) -> _Read:
        """Send the request, and count how it ended."""
        try:
            answer = self._try_each_url(path, what, reader)
        except UnknownSchemaError:
            count_event(LOOKUP, "unknown")
            raise
        except RetriableException:
            count_event(LOOKUP, "failed")
            raise
        count_event(LOOKUP, "found")
        return answer

    def _try_each_url(self, path: str, what: str, reader: Callable[[bytes], _Read]) -> _Read:
        """Query the URLs in turn until one answers.

        Args:
            path: The part after the URL.
            what: The name of the requested object, for texts.
            reader: Reads the body of an answer.
        """
        now = self._clock()
        if now >= self._allowance_end:
            raise RegistryAwayException(f"{what} cannot be looked up: {_TOO_LONG_FOR_ALL}")
        deadline = min(now + self._timeout, self._allowance_end)
        # If others have had most of the time, a timeout in the rest means nothing for a URL.
        is_short = deadline - now < min(self._timeout, self._allowance_s) / 2
        is_cut = False
        willing = [endpoint for endpoint in self._endpoints if endpoint.not_before <= now]
        unknown: UnknownSchemaError | None = None
        for number, endpoint in enumerate(willing):
            # A URL that hangs leaves the others their share of the time.
            limit = (deadline - self._clock()) / (len(willing) - number)
            if limit <= 0:
                break
            try:
                answer = self._request(endpoint, path, what, reader, limit)
            except UnknownSchemaError as error:
                unknown = error
                continue
            except NoAnswerError as error:
                self._problem = f"the schema registry at {endpoint.url} {error}"
                if is_short and error.late:
                    is_cut, self._problem = True, _TOO_LONG_FOR_ALL
                elif error.is_away:
                    endpoint.not_before = self._clock() + PAUSE
                continue
            self._prefer(endpoint)
            return answer
        if unknown is not None:
            raise unknown
        text = f"{what} cannot be looked up: {self._problem}"
        if is_cut or all(endpoint.not_before > now for endpoint in self._endpoints):
            raise RegistryAwayException(text)
        raise RetriableException(text)

    def _prefer(self, endpoint: Endpoint) -> None:
        """Query a URL first from now on."""
        place = self._endpoints.index(endpoint)
        self._endpoints = self._endpoints[place:] + self._endpoints[:place]

    @staticmethod
    def _request(
        endpoint: Endpoint, path: str, what: str, reader: Callable[[bytes], _Read], limit: float
    ) -> _Read:
        answer = endpoint.get(path, limit)
        if answer.status == 200:
            try:
                return reader(answer.body)
            except UnreadableAnswerError as error:
                raise NoAnswerError(f"sent a response that {error}", away=False) from None
        if answer.status == 404 and answers.means_unknown(answer.body):
            raise UnknownSchemaError(f"{what} is not in the schema registry")
        hint = {
            401: " (Unauthorized): see schema.registry.basic.auth.user.info and "
            "schema.registry.bearer.auth.*",
            403: " (Forbidden): these credentials may not read schemas",
            404: ", but not as a schema registry does: see the path in schema.registry.url",
        }.get(answer.status, "; redirects are not followed" if answer.status // 100 == 3 else "")
        raise NoAnswerError(
            f"responded with status {answer.status}{hint}", away=answer.status in _AWAY
        )
