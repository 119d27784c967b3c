"""KIP-905: replaces fields by the tags in their schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.policies.schema_policy.packages import OF_SCHEMAS, check_packages
from penstock.policies.schema_policy.registry.settings import CONFIG_KEYS as REGISTRY_CONFIG_KEYS
from penstock.policies.schema_policy.registry.settings import PREFIX as REGISTRY_PREFIX
from penstock.policies.schema_policy.wire_format import (
    FramingError,
    SchemaIdLocation,
    check_header,
    find_id,
    groups_of,
)
from penstock.policies.topic_interceptor import TopicInterceptor, boolean, items
from penstock.policy import ConfigKey, ProduceRequestInterceptorResult, RetriableException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, SchemaSource
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.tags import TagPatterns
    from penstock.policy import BatchProxy, Header

    Redact = Callable[[bytes], bytes]
    """Takes a payload and returns it, or another payload."""
    Change = Callable[[Any], tuple[Any, bool | None]] | None
    """Takes a value and returns it, or another, and whether it did; None changes none. None for
    whether it did: it never does for values of this type."""

_SCHEMAS_KEPT: Final = 1000


class RedactTagged(TopicInterceptor):
    """Replaces the fields that have certain tags in their schema in the registry.

    Tags are in the schema (`confluent:tags` of Avro fields and JSON properties,
    `(confluent.field_meta).tags` of Protobuf fields) or in its metadata (`metadata.tags`). The
    replacement replaces strings. Other types become null if the schema allows null, and otherwise
    the zero of their type. In JSON, every other byte stays. A payload of Avro or Protobuf without
    any of the fields stays byte for byte the same, unless its bytes have more than its value, such
    as a repeated field; a changed payload is written again. The schema id stays. Tombstones are
    accepted.

    A value that cannot be redacted is a failure of the interceptor: without a schema id, with an
    unknown or unusable schema, or if it does not fit its schema. If the registry does not answer
    for an unknown schema, the partition gets a retriable error. Look-ups happen before a batch is
    processed, outside of the interceptors' deadline.

    Attributes:
        topics: A pattern that is found in the names of the topics (`re.search`).
        tags: Fields with any of these tags are replaced.
        registry: Settings of the registry: `schema.registry.url` and its other keys.
        replacement: The text that replaces strings.
        keys: Whether keys are redacted. A key decides on the partition, so equal keys can then be
            in several partitions.
        values: Whether values are redacted.
    """

    drops_records: ClassVar[bool] = False
    tags: ClassVar[Sequence[str]]
    registry: ClassVar[Mapping[str, str]]
    replacement: ClassVar[str] = "***"
    keys: ClassVar[bool] = False
    values: ClassVar[bool] = True
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey("tags", "LIST", None, "Fields with any of these tags are replaced."),
        ConfigKey("replacement", "STRING", "***", "The text that replaces strings."),
        ConfigKey("keys", "BOOLEAN", "false", "Whether keys are redacted."),
        ConfigKey("values", "BOOLEAN", "true", "Whether values are redacted."),
        *REGISTRY_CONFIG_KEYS,
        *TopicInterceptor.config_keys,
    )
    readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **TopicInterceptor.readers,
        "tags": items,
        "replacement": str,
        "keys": boolean,
        "values": boolean,
    }

    def take(self, configs: Mapping[str, str]) -> None:
        """Read settings from keys; those of the registry only if the class has none.

        Raises:
            ValueError: A setting is invalid.
        """
        super().take(configs)
        settings = {key: value for key, value in configs.items() if key.startswith(REGISTRY_PREFIX)}
        if settings and not getattr(self, "registry", None):
            setattr(self, "registry", settings)  # noqa: B010 - of this instance

    def configure(self, configs: Mapping[str, str] | None = None) -> None:
        """Read the settings.

        Args:
            configs: The configuration, for a named policy.

        Raises:
            ValueError: A setting is missing or is invalid, or a package is not installed.
        """
        super().configure(configs)
        name = type(self).__name__
        if not getattr(self, "tags", None):
            raise ValueError(f"{name}.tags must be set")
        if isinstance(self.tags, str):
            raise ValueError(f"{name}.tags must be a tuple of tags")  # noqa: TRY004
        if not getattr(self, "registry", None):
            raise ValueError(f"{name}.registry must be set, with schema.registry.url")
        if not isinstance(self.replacement, str):
            raise ValueError(f"{name}.replacement must be a string")  # noqa: TRY004
        if not (self.keys or self.values):
            raise ValueError(f"{name}: keys or values must be true")
        self._tags = frozenset(self.tags)
        self._schemas = self.open_registry()
        self._redactions: dict[int | str, tuple[str, Redact]] = {}
        self._unusable: dict[int | str, Exception] = {}

    def open_registry(self) -> Registry:
        """Return the registry of the settings.

        Raises:
            ValueError: The settings are invalid, or a package is not installed.
        """
        check_packages(OF_SCHEMAS, "schemas")
        from penstock.policies.schema_policy.registry.opening import open_registry  # noqa: PLC0415
        from penstock.policies.schema_policy.registry.settings import (  # noqa: PLC0415
            RegistrySettings,
        )

        settings = RegistrySettings.from_configs(dict(self.registry))
        if settings is None:
            raise ValueError(f"{type(self).__name__}.registry: schema.registry.url must be set")
        return open_registry(settings)

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._schemas is not None:
            self._schemas.close()

    def prepare_batch(self, topic: str, partition: int, batch: BatchProxy) -> None:  # noqa: ARG002
        """Look up and compile the schemas of a batch.

        Raises:
            RetriableException: The registry does not answer.
        """
        self._unusable = {}
        self._schemas.use_share_of(topic)
        for is_key, column in ((True, batch.keys), (False, batch.values)):
            if not (self.keys if is_key else self.values):
                continue
            groups, _ = groups_of(
                column, batch.headers, is_key=is_key, location=SchemaIdLocation.ANY
            )
            for schema in {group.framed_id.schema for group in groups}:
                try:
                    self._redaction(schema)
                except (LookupError, ValueError) as error:
                    # Only its own records fail, when they are processed, without a request.
                    self._unusable[schema] = error

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,  # noqa: ARG002
        partition: int,  # noqa: ARG002
        headers: Sequence[Header],
    ) -> ProduceRequestInterceptorResult:
        """Replace the fields.

        Raises:
            ValueError: The key or the value cannot be redacted; the text does not show it.
            LookupError: The registry does not know its schema.
            RetriableException: The registry does not answer.
        """
        if self.keys and key is not None:
            key = self._redact(key, headers, is_key=True)
        if self.values and value is not None:
            value = self._redact(value, headers, is_key=False)
        return ProduceRequestInterceptorResult(key, value)

    def _redact(self, data: bytes, headers: Sequence[Header], *, is_key: bool) -> bytes:
        side = "key" if is_key else "value"
        try:
            framed = find_id(data, headers, is_key=is_key, location=SchemaIdLocation.ANY)
        except FramingError as error:
            raise ValueError(f"the {side} {error}") from None
        if framed.schema in self._unusable:
            raise self._unusable[framed.schema]
        schema_type, redact = self._redaction(framed.schema)
        payload = framed.payload(data)
        try:
            check_header(framed, schema_type)
            redacted = redact(payload)
        except RecursionError:
            raise ValueError(f"the {side} is nested too deeply") from None
        except ValueError as error:
            raise ValueError(f"the {side} {error}") from None
        if redacted == payload:
            return data
        # Message indexes of Protobuf in a header stay there.
        return data[: framed.start] + redacted[len(framed.message_indexes) :]

    def _redaction(self, schema: int | str) -> tuple[str, Redact]:
        """Return a schema's type, and the redactor of its payloads.

        Raises:
            InvalidSchemaError: The schema cannot be used.
            LookupError: The registry does not know it.
            RetriableException: The registry does not answer, or protoc cannot be run.
        """
        redaction = self._redactions.get(schema)
        if redaction is None:
            try:
                redaction = self._make(schema)
            except OSError as error:
                raise RetriableException(f"a schema cannot be compiled now: {error}") from None
            if len(self._redactions) >= _SCHEMAS_KEPT:
                del self._redactions[next(iter(self._redactions))]
            self._redactions[schema] = redaction
        return redaction

    def _make(self, known_as: int | str) -> tuple[str, Redact]:
        from penstock.policies.schema_policy.encrypted import as_it_arrives  # noqa: PLC0415
        from penstock.policies.schema_policy.payloads import compile_schema  # noqa: PLC0415
        from penstock.policies.schema_policy.tags import read_patterns  # noqa: PLC0415

        schema: RegisteredSchema = self._schemas.schema(known_as)
        source = self._schemas.source(schema)
        compiled = compile_schema(as_it_arrives(schema, source))
        patterns = read_patterns(schema.metadata)
        if schema.schema_type == "JSON":
            redact = self._of_json(source, patterns)
        elif schema.schema_type == "PROTOBUF":
            redact = _rewriting(compiled, self._change_messages(patterns), always=True)
        else:
            redact = _rewriting(compiled, self._change_values(source, patterns), always=False)
        return schema.schema_type, _checked(compiled, redact)

    def _of_json(self, source: SchemaSource, patterns: TagPatterns) -> Redact:
        from penstock.policies.schema_policy.fields import json_schema  # noqa: PLC0415
        from penstock.policies.schema_policy.json_redaction import JsonRedaction  # noqa: PLC0415

        root = json_schema.read_fields(source, patterns, widely=True)
        return JsonRedaction(root, self._tags, self.replacement).apply

    def _change_values(self, source: SchemaSource, patterns: TagPatterns) -> Change:
        from penstock.policies.schema_policy.fields import avro  # noqa: PLC0415
        from penstock.policies.schema_policy.redaction import Redaction  # noqa: PLC0415

        redaction = Redaction(avro.read_fields(source, patterns), self._tags, self.replacement)
        return None if redaction.is_empty else redaction.apply

    def _change_messages(self, patterns: TagPatterns) -> Change:
        from penstock.policies.schema_policy.fields import protobuf  # noqa: PLC0415
        from penstock.policies.schema_policy.redaction import MessageRedaction  # noqa: PLC0415

        redactions: dict[str, MessageRedaction] = {}

        def change(message: Any) -> tuple[Any, bool | None]:
            name = message.DESCRIPTOR.full_name
            if name not in redactions:
                root = protobuf.read_fields(message.DESCRIPTOR, patterns)
                redactions[name] = MessageRedaction(root, self._tags, self.replacement)
            redaction = redactions[name]
            return message, None if redaction.is_empty else redaction.apply(message)

        return change


def _checked(compiled: CompiledSchema, redact: Redact) -> Redact:
    def checked(payload: bytes) -> bytes:
        for _position, message in compiled.objections([payload]):
            raise ValueError(f"does not fit its schema: {message}")
        return redact(payload)

    return checked


def _rewriting(compiled: CompiledSchema, change: Change, *, always: bool) -> Redact:
    """Return what decodes a payload, changes the value and encodes it.

    Args:
        compiled: Decodes and encodes.
        change: Changes the value.
        always: Whether a value is encoded that did not change. If a field occurs twice, the value
            has the last: the bytes may show the first. Encoded again, they show the value.
    """

    def redact(payload: bytes) -> bytes:
        if change is None:
            return payload
        value, is_new = change(compiled.decode(payload))
        return compiled.encode(value) if is_new or (always and is_new is not None) else payload

    return redact
