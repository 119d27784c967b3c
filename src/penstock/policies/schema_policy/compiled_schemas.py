"""Schemas of a registry, compiled once for all topics, keys and values."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from penstock.policies.schema_policy.encrypted import as_it_arrives
from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.payloads import compile_schema
from penstock.policies.schema_policy.payloads.compiled import NamesMessages
from penstock.policies.schema_policy.rules.options import RuleOptions
from penstock.policies.schema_policy.rules.rules import compile_rules
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.registry.cache import Registry
    from penstock.policies.schema_policy.rules.rules import SchemaRules

_KEPT: Final = 32 * 1024 * 1024
"""Characters of schemas that are kept compiled; others are compiled again."""
PROBLEM_SECONDS: Final = 60.0
"""After what time something that cannot be used is tried again: a missing part may exist now."""
_LEAST: Final = 32 * 1024
"""What each counts as at least: there are no more than 1,024."""


class Compilation(NamedTuple):
    """What came of compiling a schema and its rules.

    Attributes:
        schema: None where it cannot be used.
        rules: None where it has none, or where they cannot be used.
        problem: Why nothing can be judged by it; empty where all is well.
        problem_of_rules: Why its rules cannot be.
        size: How many characters the schema has, with all that it refers to.
        expiry_s: When it is compiled again, in seconds of the clock.
    """

    schema: CompiledSchema | None
    rules: SchemaRules | None
    problem: str = ""
    problem_of_rules: str = ""
    size: int = 0
    expiry_s: float = inf

    def message_name(self, payload: bytes) -> str | None:
        """Return the full name of the Protobuf message that a payload declares, or None."""
        return self.schema.message_name(payload) if isinstance(self.schema, NamesMessages) else None


class CompiledSchemas:
    """Compiles the schemas of a registry; an immutable schema is compiled once."""

    def __init__(
        self,
        registry: Registry,
        *,
        unknown_fields: bool = False,
        formats: bool = False,
        options: RuleOptions = RuleOptions(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compile nothing yet.

        Args:
            registry: Has the schemas that others refer to.
            unknown_fields: Whether Protobuf messages may have fields that their schema does not
                have.
            formats: Whether `format` of JSON Schemas is judged.
            options: How rules are read.
            clock: Seconds.
        """
        self._registry = registry
        self._options = options
        self._unknown_fields = unknown_fields
        self._formats = formats
        self._clock = clock
        self._compilations: MutableMapping[int | str, Compilation] = LRUCache(
            _KEPT, lambda compiled: max(compiled.size, _LEAST)
        )

    def of(self, schema: RegisteredSchema, known_as: int | str) -> Compilation:
        """Return a schema and its rules, compiled.

        Args:
            schema: As the registry gave it.
            known_as: Its id or GUID, by which it is remembered.

        Raises:
            RetriableException: The registry does not return the schemas that it refers to now, or
                protoc cannot be run.
            ValueError: A package is missing; the text explains how to install it.
        """
        compiled_schema = self.kept(known_as)
        if compiled_schema is None:
            compiled_schema = self._made(schema)
            if compiled_schema.problem or compiled_schema.problem_of_rules:
                compiled_schema = compiled_schema._replace(expiry_s=self._clock() + PROBLEM_SECONDS)
            self._compilations[known_as] = compiled_schema
        return compiled_schema

    def kept(self, known_as: int | str) -> Compilation | None:
        """Return a schema that was compiled before and is still kept; None for another."""
        entry = self._compilations.get(known_as)
        if entry is None or entry.expiry_s is inf or self._clock() < entry.expiry_s:
            return entry
        return None

    def _made(self, schema: RegisteredSchema) -> Compilation:
        try:
            source = self._registry.source(schema)
            compiled = compile_schema(
                as_it_arrives(schema, source),
                unknown_fields=self._unknown_fields,
                formats=self._formats,
            )
        except InvalidSchemaError as error:
            return Compilation(None, None, str(error), str(error), len(schema.text))
        except OSError as error:
            raise RetriableException(f"a schema cannot be compiled now: {error}") from None
        size = len(source.text) + sum(map(len, source.references.values()))
        try:
            return Compilation(
                compiled, compile_rules(schema, compiled, source, self._options), size=size
            )
        except InvalidSchemaError as error:
            return Compilation(compiled, None, problem_of_rules=str(error), size=size)
        except ValueError as error:  # CEL is a separate extra, needed at the level of rules
            return Compilation(compiled, None, problem_of_rules=str(error), size=size)
