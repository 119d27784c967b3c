"""Makes the judges of the keys and values of topics, by their settings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.policies.schema_policy.judge import FileJudge, SideJudge
from penstock.policies.schema_policy.packages import OF_RULES_OF_SCHEMAS, check_packages
from penstock.policies.schema_policy.settings import (
    KEY_VALIDATION,
    VALUE_VALIDATION,
    FileSettings,
    Level,
    TopicSettings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.policies.schema_policy.compiled_schemas import CompiledSchemas
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.rules.options import RuleOptions
    from penstock.policies.schema_policy.settings import SchemaFileName
    from penstock.policies.schema_policy.unusable import UnusableSchemas

_FILES_KEPT: Final = 1000


class TopicJudges:
    """Makes judges by schemas of a registry, or of files: a judge for each file."""

    def __init__(
        self,
        folder: Path,
        settings: FileSettings,
        options: RuleOptions,
        registry: Registry | None,
        schemas: CompiledSchemas | None,
        unusable: UnusableSchemas | None,
    ) -> None:
        """Prepare; nothing is read.

        Args:
            folder: Where relative names of schema files start.
            settings: Those of the configuration file.
            options: How rules are evaluated.
            registry: None if the file names none; then `schemas` and `unusable` are None.
            schemas: The compiled schemas of the registry.
            unusable: The schemas that could not be used.
        """
        self._registry = registry
        self._schemas = schemas
        self._unusable = unusable
        self._file = lru_cache(_FILES_KEPT)(_FileJudges(folder, settings, options).judge)

    def judges_of(
        self, topic: str, configs: tuple[tuple[str, str], ...]
    ) -> Mapping[bool, SideJudge]:
        """Return the judges of a topic's keys (True) and values (False), the keys' first.

        Args:
            configs: The topic level keys with their values.

        Raises:
            ValueError: A setting is invalid, a file is missing or cannot be used, there is no
                registry, or a package is missing.
        """
        settings = TopicSettings.read(dict(configs))
        return {
            is_key: self._file(settings.files[is_key], settings.level, is_key=is_key)
            if settings.files
            else self._registry_judge(topic, settings, is_key=is_key)
            for is_key in settings.sides
        }

    def _registry_judge(self, topic: str, settings: TopicSettings, *, is_key: bool) -> SideJudge:
        from penstock.policies.schema_policy.registry_judge import (  # noqa: PLC0415 - an extra
            RegistryJudge,
        )

        if settings.level is Level.RULES:
            check_packages(OF_RULES_OF_SCHEMAS, "rules")
        if self._registry is None or self._schemas is None or self._unusable is None:
            key = KEY_VALIDATION if is_key else VALUE_VALIDATION
            raise ValueError(f"{key} needs schema.registry.url, or schema.file on the topic")
        return RegistryJudge(
            topic, settings, self._registry, self._schemas, self._unusable, is_key=is_key
        )


class _FileJudges:
    """Makes judges by schema files."""

    def __init__(self, folder: Path, settings: FileSettings, options: RuleOptions) -> None:
        self._folder = folder
        self._settings = settings
        self._options = options

    def judge(self, file: SchemaFileName, level: Level, *, is_key: bool) -> SideJudge:
        """Return the judge of keys, or of values, by a file."""
        from penstock.policies.schema_policy.files import (  # noqa: PLC0415 - an extra
            compile_file,
            compile_file_rules,
        )

        compiled = compile_file(
            self._folder,
            file,
            unknown_fields=self._settings.unknown_fields,
            formats=self._settings.formats,
        )
        rules = None
        if level is Level.RULES:
            check_packages(OF_RULES_OF_SCHEMAS, "rules")
            rules = compile_file_rules(self._folder, file, compiled, self._options)
        return FileJudge(compiled, file.name, is_key=is_key, rules=rules)
