"""A registry's answers, kept for other workers, and for the time after a restart.

Answers are shared with the other workers of the gateway (`penstock.policy.share_value`), which has
them for as long as it runs, and written to a folder if a folder is named. They are kept as the
registry sends them, and read by the same readers, which check everything.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from penstock.policies.schema_policy.registry import answers
from penstock.policies.schema_policy.registry.answers import UnreadableAnswerError
from penstock.policy import share_value, shared_value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry.cache_folder import CacheFolder

WRITTEN_AGAIN_S: Final = 600.0
"""After what time an answer that has not changed is written again, with its new age."""
_FUTURE_S: Final = 60.0
"""By how much the clocks of two machines may differ: later answers are not used."""
_WRITTEN_KEPT: Final = 20_000
"""For how many answers the time of writing is kept."""
_Value = TypeVar("_Value")


class KeptAnswer(NamedTuple, Generic[_Value]):
    """An answer of a registry, and its time.

    Attributes:
        sent_s: When the request was sent, in seconds since the epoch.
    """

    value: _Value
    sent_s: float


class KeptAnswers:
    """Answers of a registry, by request."""

    def __init__(
        self,
        urls: Sequence[str] = (),
        folder: CacheFolder | None = None,
        clock: Callable[[], float] = time.time,
        *,
        caller: Sequence[str] = (),
    ) -> None:
        """Read nothing yet.

        Args:
            urls: The registry's URLs: an answer of one of them is used for all of them.
            folder: Keeps answers after the gateway has ended; None to keep none.
            clock: Seconds since the epoch.
            caller: The client, as `RegistrySettings.caller`: answers to other clients are not used.
        """
        identity = json.dumps([sorted(urls), list(caller)])
        registry = sha256(identity.encode()).hexdigest()[:16]
        self._prefix = f"penstock.schema-registry/{registry}/"
        self._folder = folder
        self._clock = clock
        self._written_answers: dict[str, KeptAnswer[bytes]] = {}

    def now(self) -> float:
        """Return the time, as in `KeptAnswer.sent_s`."""
        return self._clock()

    def schema(self, request: str) -> KeptAnswer[RegisteredSchema] | None:
        """Return the schema of an answer; None if it is not kept."""
        return self._find(request, _schema)

    def versions(self, request: str) -> KeptAnswer[Sequence[tuple[str, int]]] | None:
        """Return the subjects and versions of an answer; None if it is not kept."""
        return self._find(request, answers.subject_versions)

    def latest(self, request: str) -> KeptAnswer[tuple[RegisteredSchema, int]] | None:
        """Return the schema of an answer, and its version; None if it is not kept."""
        return self._find(request, lambda body: (_schema(body), answers.version(body)))

    def keep_schema(
        self, request: str, schema: RegisteredSchema, timestamp: float | None = None
    ) -> None:
        """Keep an answer: of a time, as in `KeptAnswer.sent_s`, or of now."""
        self._keep(request, _as_json(schema), timestamp)

    def keep_versions(
        self, request: str, pairs: Sequence[tuple[str, int]], timestamp: float | None = None
    ) -> None:
        """Keep an answer: of a time, as in `KeptAnswer.sent_s`, or of now."""
        pairs_as_json = [{"subject": subject, "version": version} for subject, version in pairs]
        self._keep(request, pairs_as_json, timestamp)

    def keep_latest(
        self, request: str, schema: RegisteredSchema, version: int, timestamp: float | None = None
    ) -> None:
        """Keep an answer: of a time, as in `KeptAnswer.sent_s`, or of now."""
        self._keep(request, _as_json(schema) | {"version": version}, timestamp)

    def forget(self, request: str) -> None:
        """Forget an answer, because the registry does not have it any more."""
        name = self._prefix + request
        with suppress(ValueError):
            share_value(name, b"")
        if self._folder is not None:
            self._written_answers.pop(name, None)
            self._folder.delete(name)

    def _find(self, request: str, reader: Callable[[bytes], _Value]) -> KeptAnswer[_Value] | None:
        name = self._prefix + request
        shared = self._read(shared_value(name), reader)
        if shared is not None or self._folder is None:
            return shared
        content = self._folder.read(name)
        answer = self._read(content, reader)
        if answer is not None and content is not None:
            with suppress(ValueError):
                share_value(name, content)
        return answer

    def _read(
        self, content: bytes | None, reader: Callable[[bytes], _Value]
    ) -> KeptAnswer[_Value] | None:
        if content is None:
            return None
        timestamp, _, body = content.partition(b"\n")
        try:
            answer = KeptAnswer(reader(body), float(timestamp))
        except (ValueError, UnreadableAnswerError):  # of another version of Penstock
            return None
        return answer if answer.sent_s <= self._clock() + _FUTURE_S else None

    def _keep(self, request: str, answer: Any, timestamp: float | None) -> None:
        name, now = self._prefix + request, self._clock() if timestamp is None else timestamp
        body = json.dumps(answer, separators=(",", ":")).encode()
        with suppress(ValueError):  # a name may be too long; then it is not shared
            share_value(name, b"%.3f\n" % now + body)
            if self._folder is not None:
                self._write(self._folder, name, body, now)

    def _write(self, folder: CacheFolder, name: str, body: bytes, now: float) -> None:
        digest = sha256(body).digest()
        last = self._written_answers.get(name)
        if last is not None and last.value == digest and now - last.sent_s < WRITTEN_AGAIN_S:
            return
        if len(self._written_answers) >= _WRITTEN_KEPT:
            self._written_answers.clear()
        self._written_answers[name] = KeptAnswer(digest, now)
        folder.write(name, b"%.3f\n" % now + body)


class NothingKept(KeptAnswers):
    """Keeps nothing."""

    def _find(self, request: str, reader: Callable[[bytes], _Value]) -> None:
        del request, reader

    def _keep(self, request: str, answer: Any, timestamp: float | None) -> None:
        del request, answer, timestamp

    def forget(self, request: str) -> None:
        """Do nothing."""
        del request


def _schema(body: bytes) -> RegisteredSchema:
    answer = answers.read(body)
    context = answer.get("context") if isinstance(answer, dict) else None
    return answers.schema(body)._replace(context=context if isinstance(context, str) else "")


def _as_json(schema: RegisteredSchema) -> dict[str, Any]:
    """Write a schema as a registry does, with the known facts about it."""
    return {
        "schemaType": schema.schema_type,
        "schema": schema.text,
        "references": [reference._asdict() for reference in schema.references],
        "id": schema.schema_id,
        "guid": schema.guid,
        "metadata": schema.metadata or None,
        "ruleSet": schema.rule_set or None,
        "context": schema.context,
    }
