"""Rules of a data contract, ready to judge values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.policies.schema_policy.errors import InvalidSchemaError
from penstock.policies.schema_policy.fields.tree import leading_to, reachable
from penstock.policies.schema_policy.payloads.compiled import SchemaSource
from penstock.policies.schema_policy.payloads.protobuf.serialized import is_descriptor
from penstock.policies.schema_policy.rules.avro_values import as_it_is, conversion
from penstock.policies.schema_policy.rules.options import RegexEngine, RuleOptions
from penstock.policies.schema_policy.rules.program import Language, Program
from penstock.policies.schema_policy.rules.rule_set import RuleCondition, read_rule_set, shorten
from penstock.policies.schema_policy.rules.values import EvaluationError
from penstock.policies.schema_policy.rules.variables import Variables
from penstock.policies.schema_policy.rules.walk import CompiledCondition, LocatedConditions, Walk
from penstock.policies.schema_policy.tags import TagPatterns, read_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor import Descriptor

    from penstock.policies.schema_policy.fields.tree import Field, InlineRule, Node
    from penstock.policies.schema_policy.payloads.compiled import CompiledSchema, NamesMessages
    from penstock.policies.schema_policy.registered import RegisteredSchema
    from penstock.policies.schema_policy.rules.avro_values import Convert
    from penstock.policies.schema_policy.rules.buf_validate import MessageRules

_DEFAULTS: Final = RuleOptions()
_INLINE_MOST: Final = 1_000
_FIELD_VARIABLES: Final = ("value", "fullName", "name", "typeName", "tags", "message")


class SchemaRules:
    """The conditions of a schema that values are judged by.

    Attributes:
        not_run: What they are not judged by, and why, one line each.
        is_empty: Whether there is nothing to judge by.
    """

    def __init__(
        self,
        record_conditions: Sequence[CompiledCondition],
        walks: _Walks,
        not_run: Sequence[str],
        convert: Callable[[Any], Any],
        of_messages: MessageRules | None,
    ) -> None:
        self._record_conditions = record_conditions
        self._walks = walks
        self._convert = convert
        self._of_messages = of_messages
        self.not_run = tuple(not_run)
        self.is_empty = not record_conditions and walks.is_empty and of_messages is None

    def objection(self, value: object) -> str | None:
        """Return why a value breaks a rule, or None if it breaks none.

        The text names the rule, where it failed and what the rule demands, never the value. A
        rule that has no result for the value (a missing key, another type) is broken, as in
        Confluent's clients.

        Args:
            value: What `CompiledSchema.decode` returned.

        Raises:
            InvalidSchemaError: A rule cannot be used.
        """
        try:
            if self._record_conditions:
                variables = Variables(
                    {"message": self._convert(value)}, is_shared=len(self._record_conditions) > 1
                )
                for condition in self._record_conditions:
                    objection = condition(variables, "")
                    if objection is not None:
                        return objection
            objection = self._walks.objection(value)
            if objection is None and self._of_messages is not None:
                return self._of_messages.objection(value)
            return objection
        except EvaluationError as error:
            return f"its rules have no result: {error}"
        except RecursionError:
            return "its values are nested too deeply for the rules"


class _Walks:
    """The rules about fields, for each type of message that values have."""

    def __init__(
        self,
        conditions: Sequence[tuple[RuleCondition, CompiledCondition]],
        inline: Callable[[InlineRule], CompiledCondition] | None,
        root: Node | None,
        patterns: TagPatterns,
        convert: Convert,
        *,
        skip_null: bool,
        path: str,
    ) -> None:
        self._conditions = conditions
        self._inline = inline
        self._patterns = patterns
        self._convert = convert
        self._skip_null = skip_null
        self._path = path
        self._ready: dict[str, tuple[Node, Walk] | None] = {}
        self._root = root
        self.is_empty = False
        if root is not None:
            self.add("", root)
            self.is_empty = self._ready[""] is None

    def add(self, name: str, root: Node) -> None:
        """Find the conditions for a type of values."""
        nodes = reachable(root)
        of_nodes, of_fields, of_leaves = {}, {}, {}
        count = 0
        for node in nodes:
            if self._inline is not None and node.rules:
                of_nodes[id(node)] = [self._inline(rule) for rule in node.rules]
                count += len(node.rules)
            for field in node.fields:
                if self._inline is not None and field.rules:
                    of_fields[id(field)] = [self._inline(rule) for rule in field.rules]
                    count += len(field.rules)
                conditions = [
                    condition for rule, condition in self._conditions if _is_for(rule, field)
                ]
                if conditions:
                    of_leaves[id(field)] = conditions
            if count > _INLINE_MOST:
                raise InvalidSchemaError(f"the schema has more than {_INLINE_MOST} inline rules")
        if not (of_nodes or of_fields or of_leaves):
            self._ready[name] = None
            return
        ways = leading_to(
            nodes,
            lambda field: id(field) in of_fields or id(field) in of_leaves,
            lambda node: id(node) in of_nodes,
        )
        located = LocatedConditions(of_nodes, of_fields, of_leaves, ways)
        self._ready[name] = root, Walk(located, self._convert, skip_null=self._skip_null)

    def settle(self, *, has_conditions: bool) -> None:
        """Set `is_empty`, once all types of values are known."""
        self.is_empty = not has_conditions and not any(self._ready.values())

    def objection(self, value: Any) -> str | None:
        """Return the first objection of a rule about a field, if any."""
        name = "" if self._root is not None else value.DESCRIPTOR.full_name
        if name not in self._ready:
            from penstock.policies.schema_policy.fields import protobuf  # noqa: PLC0415

            self.add(name, protobuf.read_fields(value.DESCRIPTOR, self._patterns))
        entry = self._ready[name]
        if entry is None:
            return None
        root, walk = entry
        return walk.value_objection(root, value, self._path)


def compile_rules(
    schema: RegisteredSchema,
    compiled: CompiledSchema,
    source: SchemaSource | None = None,
    options: RuleOptions = _DEFAULTS,
) -> SchemaRules:
    """Compile the rules of a registered schema: of its rule set, and those within its text.

    Args:
        schema: The schema, its rule set and its metadata.
        compiled: The same schema, compiled. Of Protobuf, its first message is needed, whose
            descriptors the expressions see.
        source: The same schema with the texts of what it refers to; without them, fields of
            other schemas cannot be judged.
        options: How rules are read.

    Raises:
        InvalidSchemaError: A rule cannot be used; the text names it, and the reason.
        ValueError: A package is missing; the text explains how to install it.
    """
    if source is None:
        source = SchemaSource(schema.schema_type, schema.text)
    properties = schema.metadata.get("properties") or {}
    rule_set = read_rule_set(schema.rule_set, properties)
    patterns = read_patterns(schema.metadata)
    not_run = list(rule_set.not_run)
    compiler = _RuleCompiler(schema.schema_type, compiled, options.regex_engine)
    root = _root_of(source, patterns)
    inline: Callable[[InlineRule], CompiledCondition] | None = compiler.inline
    if rule_set.transformed_by is not None:
        inline = None
        if _has_inline_rules(root, source):
            not_run.append(
                f"rules within the schema: values are changed by rule {rule_set.transformed_by}"
            )
    convert: Convert = as_it_is
    if root is not None and schema.schema_type == "AVRO":
        convert = conversion(root, logical_types=options.logical_types)
    record_conditions = [
        compiler.condition(rule) for rule in rule_set.conditions if not rule.by_field
    ]
    by_field = [(rule, compiler.condition(rule)) for rule in rule_set.conditions if rule.by_field]
    walks = _Walks(
        by_field,
        inline,
        root,
        patterns,
        convert,
        skip_null=schema.schema_type != "AVRO",
        path="$" if schema.schema_type == "JSON" else "",
    )
    of_messages = None
    if root is None:
        messages = _messages_of(compiled)
        _try_messages(walks, messages, patterns, has_conditions=bool(by_field))
        if inline is not None:
            from penstock.policies.schema_policy.rules.buf_validate import (  # noqa: PLC0415
                compile_message_rules,
            )

            of_messages = compile_message_rules(messages)
    return SchemaRules(record_conditions, walks, not_run, partial(convert, root), of_messages)


class _RuleCompiler:
    """Compiles rules to conditions; makes a language when it is first needed."""

    def __init__(self, schema_type: str, compiled: CompiledSchema, engine: RegexEngine) -> None:
        self._schema_type = schema_type
        self._engine = engine
        self._compiled_schema = compiled
        self._languages: dict[tuple[str, ...], Language] = {}
        self._programs: dict[tuple[tuple[str, ...], str, RegexEngine], Program] = {}

    def condition(self, rule: RuleCondition) -> CompiledCondition:
        """Return the condition of a rule of the rule set."""
        variables = _FIELD_VARIABLES if rule.by_field else ("message",)
        title = f'rule "{shorten(rule.name)}"'
        engine = rule.engine or self._engine
        guard = None
        if rule.guard:
            guard = self._program(variables, rule.guard, title, "guard", engine)
        program = self._program(variables, rule.expression, title, "expression", engine)
        return _GuardedCondition(title, rule.failure_text, guard, program)

    def inline(self, rule: InlineRule) -> CompiledCondition:
        """Return the condition of a rule within the schema."""
        title = f'rule "{shorten(rule.name or "unnamed")}"'
        if not rule.expr.strip():
            raise InvalidSchemaError(f"{title} has no expression")
        # Confluent's validator for Java knows no other engine.
        program = self._program(
            ("this",), rule.expr, title, "expression", RegexEngine.RE2, may_be_text=True
        )
        return _GuardedCondition(title, shorten(rule.doc or rule.expr), None, program)

    def _program(
        self,
        variables: tuple[str, ...],
        text: str,
        title: str,
        part: str,
        engine: RegexEngine,
        *,
        may_be_text: bool = False,
    ) -> Program:
        program = self._programs.get((variables, text, engine))
        if program is None:
            try:
                program = self._language(variables).compile(
                    text, may_be_text=may_be_text, engine=engine
                )
            except InvalidSchemaError as error:
                raise InvalidSchemaError(f"{title}: its {part} {error}") from None
            self._programs[variables, text, engine] = program
        return program

    def _language(self, variables: tuple[str, ...]) -> Language:
        language = self._languages.get(variables)
        if language is None:
            pool = None
            if self._schema_type == "PROTOBUF":
                pool = next(
                    (message.file.pool for message in _messages_of(self._compiled_schema)), None
                )
            language = self._languages[variables] = Language(variables, pool)
        return language


class _GuardedCondition:
    """Implements `CompiledCondition` with a guard. Its objections contain no value."""

    def __init__(self, title: str, shown: str, guard: Program | None, program: Program) -> None:
        self._title = title
        self._failure_text = shown
        self._guard = guard
        self._program = program
        self.reads = program.reads if guard is None else program.reads | guard.reads

    def __call__(self, variables: Variables, path: str) -> str | None:
        """Return an error message, or None."""
        place = f" at {path}" if path else ""
        try:
            if self._guard is not None and self._guard.holds(variables) is not True:
                return None
            result = self._program.holds(variables)
        except EvaluationError as error:
            return f"{self._title} has no result{place}: {error}: {self._failure_text}"
        if result is True:
            return None
        why = self._failure_text if result is False else shorten(result)
        return f"{self._title} failed{place}: {why}"


def _messages_of(compiled: CompiledSchema) -> Sequence[Descriptor]:
    return cast("NamesMessages", compiled).messages


def _is_for(rule: RuleCondition, field: Field) -> bool:
    return not rule.tags or not rule.tags.isdisjoint(field.tags)


def _root_of(source: SchemaSource, patterns: TagPatterns) -> Node | None:
    """Return the fields of the schema; None for Protobuf, whose messages identify their types."""
    if source.schema_type == "AVRO":
        from penstock.policies.schema_policy.fields import avro  # noqa: PLC0415

        return avro.read_fields(source, patterns)
    if source.schema_type == "JSON":
        from penstock.policies.schema_policy.fields import json_schema  # noqa: PLC0415

        return json_schema.read_fields(source, patterns, widely=False)
    return None


def _has_inline_rules(root: Node | None, source: SchemaSource) -> bool:
    if root is None:
        texts = (source.text, *source.references.values())
        return any(
            "_meta" in text or "buf.validate" in text or is_descriptor(text) for text in texts
        )
    return any(node.rules or any(field.rules for field in node.fields) for node in reachable(root))


def _try_messages(
    walks: _Walks, messages: Sequence[Descriptor], patterns: TagPatterns, *, has_conditions: bool
) -> None:
    """Compile the rules of all messages of a file, to find a wrong rule before a record comes."""
    from penstock.policies.schema_policy.fields import protobuf  # noqa: PLC0415

    pending_messages = list(messages)
    while pending_messages:
        message = pending_messages.pop()
        walks.add(message.full_name, protobuf.read_fields(message, patterns))
        pending_messages.extend(message.nested_types)
    walks.settle(has_conditions=has_conditions)
