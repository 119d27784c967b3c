"""KIP-940: validates keys and values against schemas of a schema registry, or of files.

    record.validation.policy.class.name=penstock.policies.SchemaPolicy
    schema.registry.url=https://registry.example.com
    topics.orders.confluent.value.schema.validation=true

`docs/built-in.md` has the keys of a topic and of the file. Needs the packages of
`penstock-kafka[schemas]`, and of `penstock-kafka[rules]` for rules of data contracts.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from penstock.policies.schema_policy.judge import side_of
from penstock.policies.schema_policy.packages import OF_SCHEMAS, check_packages
from penstock.policies.schema_policy.registry.settings import CONFIG_KEYS as REGISTRY_CONFIG_KEYS
from penstock.policies.schema_policy.rules.options import KEYS as RULE_KEYS
from penstock.policies.schema_policy.settings import (
    FILE_KEYS,
    TOPIC_CONFIGS,
    FileSettings,
    TopicSettings,
)
from penstock.policies.schema_policy.topic_judges import TopicJudges
from penstock.policy import (
    ALL,
    ConfigKey,
    InvalidRecordException,
    RecordIntrospectionHints,
    UndecidableException,
)
from penstock.policy import RecordValidationPolicy as Policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.policies.decoded.readers import Decoders, ValueReader
    from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
    from penstock.policies.schema_policy.judge import PreparedColumn, SideJudge
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policy import BatchProxy, Header, RecordProxy, TopicConfig, TopicMetadata

    _PreparedSides = Mapping[bool, "_PreparedSide"]

_TOPICS_KEPT: Final = 10_000
_LOADING_S: Final = 2.0
_NONE: Final[Sequence[Sequence[Header]]] = ()


class _PreparedSide(NamedTuple):
    """The keys or the values of a batch.

    Attributes:
        nullable: The column, to look for nulls; empty if it is known to have none.
        column: The judge of the column.
    """

    nullable: Sequence[bytes | None]
    column: PreparedColumn


class SchemaPolicy(Policy):
    """Refuses records whose key or value does not fit its schema."""

    topic_configs: ClassVar[Sequence[TopicConfig]] = TOPIC_CONFIGS
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        *REGISTRY_CONFIG_KEYS,
        *(
            ConfigKey(name, "STRING", default or None, meaning)
            for name, (default, meaning) in {**FILE_KEYS, **RULE_KEYS}.items()
        ),
    )

    def __init__(self) -> None:
        self._folder = Path()
        self._registry: Registry | None = None
        self._schemas: CompiledSchemas | None = None
        self._decoders: Decoders | None = None
        self._prepared_batch: tuple[TopicMetadata, BatchProxy, _PreparedSides] | None = None
        self._last: tuple[TopicMetadata, Mapping[bool, SideJudge]] | None = None

    def use_folder(self, folder: Path) -> None:
        """Set the folder of the configuration file. It is called before `configure`."""
        self._folder = folder

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings. Nothing is contacted.

        Args:
            configs: The configuration file; only keys that start with `schema.`, and
                `json.schema.formats`, are read.

        Raises:
            ValueError: A key has a wrong value, or a package is missing.
        """
        self._settings = FileSettings.read(configs)
        check_packages(OF_SCHEMAS, "schemas")
        from penstock.policies.schema_policy.compiled_schemas import (  # noqa: PLC0415 - an extra
            CompiledSchemas,
        )
        from penstock.policies.schema_policy.registry.opening import open_registry  # noqa: PLC0415
        from penstock.policies.schema_policy.registry.settings import (  # noqa: PLC0415
            RegistrySettings,
        )
        from penstock.policies.schema_policy.rules.options import RuleOptions  # noqa: PLC0415
        from penstock.policies.schema_policy.unusable import UnusableSchemas  # noqa: PLC0415

        options = RuleOptions.read(configs)
        unusable = None
        registry = RegistrySettings.from_configs(configs, self._folder)
        if registry is not None:
            self._registry = open_registry(registry)
            unusable = UnusableSchemas()
            self._schemas = CompiledSchemas(
                self._registry,
                unknown_fields=self._settings.unknown_fields,
                options=options,
                formats=self._settings.formats,
            )
        judges = TopicJudges(
            self._folder, self._settings, options, self._registry, self._schemas, unusable
        )
        # It caches no method of this object, which would then only end with a collection of all.
        self._judges = lru_cache(_TOPICS_KEPT)(judges.judges_of)

    reads_timestamps = False

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that all parts are needed: an id can be in a header."""
        return RecordIntrospectionHints(True, ALL, ALL)

    def prepare_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Read a topic's settings and its schemas' files.

        Raises:
            ValueError: A setting is invalid, a file is missing or cannot be used, or there is
                no registry.
        """
        self._topic_judges(topic, configs)

    def load_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Look up and compile the latest schemas of a topic's subjects.

        Raises:
            ValueError: As in `prepare_topic`.
            RetriableException: The registry does not answer now.
        """
        # No batch waits for these look-ups yet, and those that come wait for their end.
        self._allow(min(_LOADING_S, self._settings.preparation_s / 4))
        for judge in self._topic_judges(topic, configs).values():
            judge.load()

    def describe_topic(self, topic: str, configs: Mapping[str, str]) -> Iterator[str]:
        """Yield lines with the schemas that judge a topic's records, for `penstock check`.

        Raises:
            ValueError: As in `prepare_topic`.
            RetriableException: The registry does not answer now.
        """
        for judge in self._topic_judges(topic, configs).values():
            yield from judge.describe()

    def value_reader(self, topic: str, configs: Mapping[str, str]) -> ValueReader | None:
        """Return the reader of a topic's values by their schemas; None if they are not validated.

        Raises:
            ValueError: As in `prepare_topic`.
        """
        del topic
        settings = TopicSettings.read(configs)
        if False not in settings.sides:
            return None
        from penstock.policies.decoded import readers  # noqa: PLC0415 - an extra

        if settings.files:
            unknown_fields = self._settings.unknown_fields
            return readers.file_reader(
                self._folder, settings.files[False], unknown_fields=unknown_fields
            )
        if self._decoders is None:
            if self._registry is None or self._schemas is None:
                return None  # `prepare_topic` has raised
            self._decoders = readers.Decoders(self._registry, self._schemas)
        return readers.ByRegistry(
            self._decoders,
            settings.location,
            settings.header,
            look_up_s=self._settings.judging_s,
        )

    def prepare_batch(self, topic: TopicMetadata, batch: BatchProxy) -> None:
        """Look up and compile the schemas of a batch.

        Raises:
            RetriableException: The registry does not answer now.
        """
        self._allow(self._settings.preparation_s)
        self._prepared_batch = None  # one batch at most is held
        self._prepared_batch = topic, batch, self._sides(topic, batch)

    def validate(self, topic: TopicMetadata, record: RecordProxy) -> None:
        """Return if key and value fit their schemas.

        Raises:
            InvalidRecordException: A key or value does not fit. The text has no value.
            RetriableException: The registry does not answer now, or a schema cannot be used.
        """
        self._allow(self._settings.judging_s)
        sides = {}
        for is_key, judge in self._of(topic).items():
            column = (record.key if is_key else record.value,)
            sides[is_key] = _PreparedSide(column, judge.prepared(column, (record.headers,)))
        for message in self._refused(sides).values():
            raise InvalidRecordException(message)

    def validate_batch(
        self, topic: TopicMetadata, batch: BatchProxy
    ) -> Iterable[tuple[int, str | None]]:
        """Return the position and the text of each record that `validate` would refuse.

        Raises:
            RetriableException: The registry does not answer now, or a schema cannot be used.
        """
        last, self._prepared_batch = self._prepared_batch, None
        if last is not None and last[0] is topic and last[1] is batch:
            sides = last[2]
        else:
            self._allow(self._settings.judging_s)
            sides = self._sides(topic, batch)
        refused = self._refused(sides)
        return sorted(refused.items()) if refused else ()

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._registry is not None:
            self._registry.close()

    def _sides(self, topic: TopicMetadata, batch: BatchProxy) -> _PreparedSides:
        sides = {}
        for is_key, judge in self._of(topic).items():
            prepared = judge.prepared_as_last(batch)
            column: Sequence[bytes | None] = ()
            if prepared is None:
                column = batch.keys if is_key else batch.values
                headers = batch.headers if judge.reads_headers else _NONE
                prepared = judge.prepared(column, headers)
            sides[is_key] = _PreparedSide(column, prepared)
        return sides

    def _refused(self, sides: _PreparedSides) -> Mapping[int, str]:
        """Return the positions of refused records, each with its text.

        Raises:
            UndecidableException: A record cannot be judged, and none is refused: a refusal would be
                final, and something that its producer can correct.
        """
        refused: dict[int, str] = {}
        undecidable: UndecidableException | None = None
        for is_key, side in sides.items():  # the key first: its objection counts
            try:
                for position, message in self._objections(*side, is_key=is_key):
                    refused.setdefault(position, message)
            except UndecidableException as error:
                undecidable = undecidable or error
        if undecidable is not None and not refused:
            raise undecidable
        return refused

    def _objections(
        self, column: Sequence[bytes | None], prepared: PreparedColumn, *, is_key: bool
    ) -> Iterable[tuple[int, str]]:
        if self._settings.null_keys if is_key else self._settings.null_values:
            return prepared.objections()
        text = f"the {side_of(is_key=is_key)} is null"
        nulls = ((index, text) for index, data in enumerate(column) if data is None)
        return chain(nulls, prepared.objections())

    def _allow(self, seconds: float) -> None:
        """End look-ups before the worker is killed: the schemas found by then are kept."""
        if self._registry is not None:
            self._registry.allow(seconds)

    def _of(self, topic: TopicMetadata) -> Mapping[bool, SideJudge]:
        if self._last is None or self._last[0] is not topic:
            judges = self._topic_judges(topic.topic_id_partition.topic, topic.configs)
            self._last = topic, judges
        return self._last[1]

    def _topic_judges(self, topic: str, configs: Mapping[str, str]) -> Mapping[bool, SideJudge]:
        return self._judges(topic, tuple(sorted(configs.items())))
