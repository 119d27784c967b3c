"""The configured instances of the policy classes, in the process that runs them.

Life cycle, as the proposals have it: an instance is made without arguments, configured once
before its first call, and closed once. Calls never overlap: each process has its own
instances and runs them from one thread. The classes of KIP-729, KIP-905 and KIP-940 have one
instance; the class of KIP-686 has one for each topic, which ends when the topic does or has
another class. The classes of KIP-108 and KIP-133 have one, in the only process that calls them.
A named policy has one instance, with any interface.
"""

from __future__ import annotations

import inspect
import re
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError, interfaces
from penstock.configuration.globs import is_glob
from penstock.configuration.interfaces import ALTER_CONFIG, CREATE_TOPIC
from penstock.configuration.policies import NAMES
from penstock.configuration.processes.environment import what_changes_policies
from penstock.configuration.topic_keys import VALIDATION_POLICY
from penstock.engine.admin_policies import AdminPolicy, signature_error
from penstock.engine.batch_methods import (
    OF_INTERCEPTORS,
    OF_VALIDATION_POLICIES,
    OF_VALIDATORS,
    Callables,
    callables,
    check_arguments,
    check_context,
    overrides,
    takes_context,
)
from penstock.engine.interceptors.interceptor_chain import Interceptor
from penstock.engine.interceptors.topic_patterns import may_be_in_names
from penstock.engine.not_now import unusable_by
from penstock.engine.objections import BatchPolicy, RecordPolicy
from penstock.engine.path_counts import PathCount
from penstock.engine.plans.configured_policy import ConfiguredPolicy
from penstock.engine.plans.configuring import configure, has_life_cycle, hints_of
from penstock.engine.plans.loading import ClassPath, describe, load_class, search_first
from penstock.engine.plans.overriding import adds_methods, check_overriding, hint_of
from penstock.engine.plans.plan import Plan
from penstock.engine.validation_policy import (
    PREPARE_TEXT,
    PREPARE_TOPIC,
    ValidationPolicy,
)
from penstock.policy import ClientContext, RecordsPolicy
from penstock.policy.path_counts import CountsPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.objections import Policy
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.policy import RecordIntrospectionHints

VALIDATORS: Final = interfaces.VALIDATORS
VALIDATION: Final = interfaces.VALIDATION
RECORDS: Final = interfaces.RECORDS
NAMED: Final = NAMES
_RECORDS_ARGUMENTS: Final = len(("topic", "partition", "records"))
INTERCEPTORS: Final = interfaces.INTERCEPTORS
_NOT_RUN: Final = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)
_METHODS: Final = {
    VALIDATORS: OF_VALIDATORS,
    VALIDATION: OF_VALIDATION_POLICIES,
    INTERCEPTORS: OF_INTERCEPTORS,
}
NOBODY: Final = ClientContext()
"""Where it is not known who sent records."""


class PolicyInstances:
    """Loads, configures and closes policy instances.

    Attributes:
        client: The client whose records are judged next, for methods that take a context.
        takes_client: The names of the classes of records that have such methods.
    """

    def __init__(
        self,
        configuration: PolicyConfiguration,
        names: Mapping[str, Sequence[str]],
        *,
        factories: Mapping[str, Callable[[], Any]] = MappingProxyType({}),
    ) -> None:
        """Load and configure every class that is named.

        One instance of each `RecordsPolicy` is configured in advance, for the first topic that
        uses it, so that errors of `configure` are raised at start.

        Args:
            configuration: The configuration for `configure()`, with the folders of the classes.
            names: Class names by the key that names them, as in `Plan.names`.
            factories: Factories of instances by class name, instead of loading the class.

        Raises:
            ConfigurationError: A class cannot be loaded or configured, or Python runs in a way that
                changes what it means.
        """
        if changes := what_changes_policies():
            raise ConfigurationError(
                f"{changes}: policies would have other verdicts than in the gateway, which does "
                "not pass it to them; run the command without it"
            )
        self._configuration = configuration
        self._factories = factories
        self._open: list[Any] = []
        self._with_paths: list[tuple[str, CountsPaths]] = []
        self.client = NOBODY
        self.takes_client: set[str] = set()
        self._reported_names: set[str] = set()
        self.on_records_class: Callable[[str], None] = _ignore_class
        search_first(configuration.folder)
        self.on_preparing: Callable[[bool], None] = _ignore
        self._interceptors = [
            self._interceptor(self._by_class(name, INTERCEPTORS))
            for name in names.get(INTERCEPTORS, ())
        ]
        self.validators: dict[str, RecordPolicy] = {}
        for name in names.get(VALIDATORS, ()):
            self.validators[name] = self._validator(self._by_class(name, VALIDATORS))
        self._validation: ValidationPolicy | None = None
        for name in names.get(VALIDATION, ()):
            self._validation = self._validation_policy(self._by_class(name, VALIDATION))
            self._prepare_defaults(self._validation)
            self._prepare_named_topics(self._validation)
        self._records_classes: dict[str, Callable[[], Any]] = {}
        self._records_ahead: dict[str, Any] = {}
        self._records_by_topic: dict[tuple[str, str], Any] = {}
        for name in names.get(RECORDS, ()):
            self._records_ahead[name] = self._records_instance(self._by_class(name, RECORDS))
        self._named_interceptors: dict[str, Interceptor] = {}
        self._named_policies: dict[str, Policy] = {}
        self._named_validations: dict[str, ValidationPolicy] = {}
        for name in names.get(NAMED, ()):
            self._add_named(name)
        self._prepare_topics_of_named()
        self.create_topic = self._admin_policy(names.get(CREATE_TOPIC, ()), CREATE_TOPIC)
        self.alter_config = self._admin_policy(names.get(ALTER_CONFIG, ()), ALTER_CONFIG)

    @property
    def validation(self) -> Any:
        """The instance of the class of `record.validation.policy.class.name`; None without one."""
        return None if self._validation is None else self._validation.instance

    @property
    def validation_policy(self) -> RecordPolicy | None:
        """How the validation policy judges; None without one."""
        return None if self._validation is None else self._validation.record_policy

    @property
    def _validations(self) -> list[ValidationPolicy]:
        own = [] if self._validation is None else [self._validation]
        return [*own, *self._named_validations.values()]

    @property
    def validation_instances(self) -> list[Any]:
        """The instances of the policies of KIP-940."""
        return [policy.instance for policy in self._validations]

    @property
    def judging(self) -> list[Policy]:
        """Everything that judges records, but for the classes of KIP-686 that topics have."""
        own = filter(None, (self.validation_policy,))
        return [*self.validators.values(), *own, *self._named_policies.values()]

    @property
    def _all_interceptors(self) -> list[Interceptor]:
        return [*self._interceptors, *self._named_interceptors.values()]

    @property
    def patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        """The name and topic pattern of each interceptor, in order."""
        return [(interceptor.name, interceptor.pattern) for interceptor in self._all_interceptors]

    @property
    def drops_records(self) -> bool:
        """Whether an interceptor may drop records."""
        return any(interceptor.drops_records for interceptor in self._all_interceptors)

    @property
    def together(self) -> list[RecordPolicy | Interceptor]:
        """What gets batches as columns: it judges or processes them, or only prepares for them."""
        every: list[RecordPolicy | Interceptor] = [
            policy for policy in self.judging if isinstance(policy, RecordPolicy)
        ]
        every += self._all_interceptors
        return [policy for policy in every if policy.is_apart]

    def hints_for(self, texts: Collection[str]) -> dict[str, list[RecordIntrospectionHints]]:
        """Return how much of a record the policies of KIP-940 look at, by name.

        Args:
            texts: Of topics, their `record.validation.policy`: some policies look at less then.
        """
        return {policy.record_policy.name: policy.hints_for(texts) for policy in self._validations}

    @property
    def counts_paths(self) -> bool:
        """Whether an interceptor has paths that are counted."""
        return bool(self._with_paths)

    def take_path_counts(self) -> list[PathCount]:
        """Return how often the paths of interceptors led to a field since the last call.

        A policy that read no value since then is left out.
        """
        return [
            PathCount(name, path, values, count)
            for name, policy in self._with_paths
            for values, counts in (policy.take_path_counts(),)
            if values
            for path, count in counts.items()
        ]

    def interceptors_for(self, topic: str, named: Sequence[str] = ()) -> list[Interceptor]:
        """Return the interceptors for a topic: first those of the file, then named interceptors.

        Args:
            named: The named interceptors that the topic has, in its order. The pattern of each
                has to be found in the topic's name as well.
        """
        of_topic = (self._named_interceptors[name] for name in named)
        return [
            interceptor
            for interceptor in (*self._interceptors, *of_topic)
            if interceptor.pattern.search(topic)
        ]

    def named(self, plan: TopicPlan) -> list[Policy]:
        """Return the named policies of a topic, but for interceptors, in its order."""
        return [self._named_policies[name] for name in plan.named]

    def prepare(self, plan: TopicPlan) -> None:
        """Prepare a topic's policies of KIP-940 for the topic.

        Raises:
            ConfigurationError: One cannot judge the topic, or fails.
        """
        for policy in self.validations_of(plan):
            policy.prepare_for(plan)

    def validations_of(self, plan: TopicPlan) -> list[ValidationPolicy]:
        """Return the policies of KIP-940 that a topic has, in order."""
        own = self._validation if plan.validation_policy is not None else None
        named = (self._named_validations.get(name) for name in plan.named)
        return [policy for policy in (own, *named) if policy is not None]

    def records_policy(self, name: str, topic: str) -> Any:
        """Return the topic's own instance of a class of KIP-686.

        Raises:
            ConfigurationError: It cannot be configured.
        """
        try:
            return self._records_by_topic[topic, name]
        except KeyError:
            pass
        instance = self._records_ahead.pop(name, None)
        if instance is None:
            instance = self._records_instance(self._by_class(name, RECORDS))
        self._records_by_topic[topic, name] = instance
        return instance

    def judging_records(self, name: str, topic: str) -> Any:
        """Return the topic's instance of a class of KIP-686, or its adapter that takes a context.

        Raises:
            ConfigurationError: It cannot be configured.
        """
        instance = self.records_policy(name, topic)
        if name not in self.takes_client:
            return instance
        return SimpleNamespace(validate=self._with_client(name, instance.validate))

    def _records_instance(self, definition: ConfiguredPolicy) -> Any:
        """Return a new instance of a class of KIP-686."""
        name = definition.name
        if name not in self._records_classes:
            self._records_classes[name] = self._load(definition, "validate")
        instance = self._instance(self._records_classes[name], definition)
        is_given_client = takes_context(instance.validate)
        try:
            if is_given_client:
                check_context(instance.validate, "validate", _RECORDS_ARGUMENTS)
            else:
                check_arguments(instance.validate, RecordsPolicy.validate)
        except TypeError as error:
            self._close_instance(instance)
            raise ConfigurationError(f"{definition.where}: {error}") from None
        if is_given_client:
            self.takes_client.add(name)
        if name not in self._reported_names and not definition.is_named:
            self._reported_names.add(name)
            self.on_records_class(name)
        return instance

    def _with_client(self, name: str, method: Any) -> Any:
        """Return a method as it is called: with the client, if it takes one."""
        if method is None or not takes_context(method):
            return method
        self.takes_client.add(name)
        return lambda *arguments: method(*arguments, context=self.client)

    def retire(self, name: str, topic: str) -> str | None:
        """Close a topic's instance of a class of KIP-686, if it exists; return an error or None."""
        instance = self._records_by_topic.pop((topic, name), None)
        return None if instance is None else self._close_instance(instance)

    def try_records_policy(self, name: str) -> None:
        """Load, configure and close a class of KIP-686, to see that it can be.

        Raises:
            ConfigurationError: It cannot be.
        """
        self._close_instance(self._records_instance(self._by_class(name, RECORDS)))

    @property
    def loads_topics(self) -> bool:
        """Whether a policy of KIP-940 has a method to load topics."""
        return any(policy.load is not None for policy in self._validations)

    def load_topic(self, plan: TopicPlan) -> None:
        """Let the topic's policies of KIP-940 look up what they need to judge it, if they can.

        Raises:
            RetriableException: A service that a policy uses is away.
            ConfigurationError: One cannot judge the topic, or fails.
        """
        for policy in self.validations_of(plan):
            policy.load_topic(plan)

    def try_topic(self, plan: TopicPlan) -> str | None:
        """See whether the policies of KIP-940 of a topic can judge it, as far as they say so.

        Where topics are altered, no instance is kept.

        Returns:
            The first objection, for the user who alters the topic; None if all can judge.

        Raises:
            ConfigurationError: One cannot be used, or fails.
        """
        if plan.validation_policy is not None:
            definition = self._by_class(plan.validation_policy, VALIDATION)
            objection = self._try_validation(definition, plan)
            if objection is not None:
                return objection
        for name in plan.named:
            named = self._configuration.named(name)
            if named is None or named.interface != VALIDATION:
                continue
            definition = ConfiguredPolicy.by_name(self._configuration, named)
            objection = self._try_validation(definition, plan)
            if objection is not None:
                return f"{name}: {objection}"
        return None

    def _try_validation(self, definition: ConfiguredPolicy, plan: TopicPlan) -> str | None:
        cls = self._load(definition, "validate")
        if not _prepares(cls):
            return None
        policy = self._validation_policy(definition)
        try:
            return policy.objection_to(plan)
        finally:
            self._close_instance(policy.instance)

    def _prepare_defaults(self, validation: ValidationPolicy) -> None:
        for default in self._configuration.topic_defaults:
            if default.key != VALIDATION_POLICY:
                continue
            try:
                validation.prepare_text(default.value)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"{self._configuration.path}: topics.{default.glob}.{error}"
                ) from None

    def _prepare_named_topics(self, validation: ValidationPolicy) -> None:
        """Prepare for the topics that the file names without a wildcard."""
        plan = Plan(self._configuration)
        for topic in dict.fromkeys(default.glob for default in self._configuration.topic_defaults):
            topic_plan = None if is_glob(topic) else plan.for_topic(topic)
            if topic_plan is not None and topic_plan.validation_policy is not None:
                try:
                    validation.prepare_topic(topic_plan)
                except ConfigurationError as error:
                    raise ConfigurationError(f"{self._configuration.path}: {error}") from None

    def _prepare_topics_of_named(self) -> None:
        """Prepare named policies for the topics that have them by the file."""
        if not self._named_validations:
            return
        plan = Plan(self._configuration)
        for glob in dict.fromkeys(default.glob for default in self._configuration.topic_defaults):
            topic_plan = plan.for_pattern(glob)
            for name in topic_plan.named if topic_plan is not None else ():
                validation = self._named_validations.get(name)
                if topic_plan is None or validation is None:
                    continue
                try:
                    if is_glob(glob):
                        validation.read_text_of(topic_plan)
                    else:
                        validation.prepare_for(topic_plan)
                except ConfigurationError as error:
                    path = self._configuration.path
                    raise ConfigurationError(f"{path}: topics.{glob}: {error}") from None

    def _optional(
        self, instance: Any, definition: ConfiguredPolicy, method: str
    ) -> Callable[..., Any] | None:
        """Return a method of a validation policy that it need not have."""
        try:
            return overrides(instance, method, OF_VALIDATION_POLICIES.interfaces)
        except TypeError as error:
            raise ConfigurationError(f"{definition.where}: {error}") from None

    def _timed(self, prepare: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a method that calls `on_preparing` when it begins and when it ends."""
        if prepare is None:
            return None

        def timed(*arguments: Any) -> None:
            self.on_preparing(True)
            try:
                prepare(*arguments)
            finally:
                self.on_preparing(False)

        return timed

    def _close_instance(self, instance: Any) -> str | None:
        """Close an instance before the others, if it has a close(); return an error."""
        others = [other for other in self._open if other is not instance]
        if len(others) == len(self._open):
            return None  # it has no close()
        self._open = others
        return _close(instance)

    def close(self) -> list[str]:
        """Close every instance once, in reverse order; return the errors."""
        complaints = []
        while self._open:
            complaint = _close(self._open.pop())
            if complaint:
                complaints.append(complaint)
        return complaints

    def _by_class(self, name: str, key: str) -> ConfiguredPolicy:
        return ConfiguredPolicy.by_class(self._configuration, name, key)

    def _load(self, definition: ConfiguredPolicy, method: str) -> Callable[[], Any]:
        """Load a class that has a method, or the method for batches that may replace it."""
        name, key = definition.class_name, definition.interface
        if name in self._factories:
            return self._factories[name]
        folders = self._configuration.class_path
        is_apart = key == VALIDATION and not definition.is_named and folders
        space = ClassPath(folders) if is_apart else None
        cls = load_class(name, key=definition.key, file=definition.file, space=space)
        is_class = isinstance(cls, type)
        elsewhere = interfaces.belongs_elsewhere(cls, key, method) if is_class else None
        if elsewhere is not None:
            raise ConfigurationError(
                f"{definition.where} is a policy of another kind, which belongs in {elsewhere}"
            )
        function = getattr(cls, method, None)
        if not callable(function):
            other = _METHODS[key].by_batch if key in _METHODS else ""
            if callable(getattr(cls, other, None)):
                return cls
            names = f"{method}()" + (f" or {other}()" if other else "")
            hint = hint_of(cls, _judging(definition.interface))
            raise ConfigurationError(f"{definition.where} has no method {names}{hint}")
        if any(is_kind(function) for is_kind in _NOT_RUN):
            raise ConfigurationError(
                f"{definition.where}: {method}() is not run by a call, and would accept "
                "everything: it must not be async, and must not yield"
            )
        return cls

    def _callables(self, instance: Any, definition: ConfiguredPolicy) -> Callables:
        """Return the methods that are called with a record and with a batch."""
        try:
            methods = callables(instance, _METHODS[definition.interface])
        except TypeError as error:
            raise ConfigurationError(f"{definition.where}: {error}") from None
        return Callables(*(self._with_client(definition.name, method) for method in methods))

    def _preparation(
        self, instance: Any, definition: ConfiguredPolicy
    ) -> Callable[..., Any] | None:
        """Return `prepare_batch` of a policy, or None."""
        methods = _METHODS[definition.interface]
        try:
            prepare = overrides(instance, "prepare_batch", methods.interfaces)
            if takes_context(prepare):
                check_context(prepare, "prepare_batch", methods.batch_arguments)
        except TypeError as error:
            raise ConfigurationError(f"{definition.where}: {error}") from None
        return self._timed(self._with_client(definition.name, prepare))

    def _instance(self, cls: Callable[[], Any], definition: ConfiguredPolicy) -> Any:
        try:
            instance = cls()
        except (Exception, SystemExit) as error:
            raise unusable_by(
                error,
                f"{definition.where}: cannot be instantiated without arguments: {describe(error)}",
            ) from None
        use_folder = getattr(instance, "use_folder", None)
        if callable(use_folder):
            use_folder(self._configuration.folder)
        configure(instance, definition)
        if has_life_cycle(definition) and callable(getattr(instance, "close", None)):
            self._open.append(instance)
        self._check_overriding(instance, definition, _judging(definition.interface))
        return instance

    def _check_overriding(
        self, instance: Any, definition: ConfiguredPolicy, names: Sequence[str]
    ) -> None:
        try:
            check_overriding(instance, names)
        except TypeError as error:
            raise ConfigurationError(f"{definition.where}: {error}") from None

    def _validator(self, definition: ConfiguredPolicy) -> RecordPolicy:
        instance = self._instance(self._load(definition, "validate_record"), definition)
        return RecordPolicy(
            definition.name,
            *self._callables(instance, definition),
            reads_timestamps=_reads_timestamps(instance),
        )

    def _validation_policy(self, definition: ConfiguredPolicy) -> ValidationPolicy:
        instance = self._instance(self._load(definition, "validate"), definition)
        judging = RecordPolicy(
            definition.name,
            *self._callables(instance, definition),
            self._preparation(instance, definition),
            hints_of(instance, definition),
            # A named policy gets its own configs, and none if its class declares none.
            (definition.topic_configs or {}) if definition.is_named else None,
            _reads_timestamps(instance),
            getattr(instance, "objections_of_rules", None),
            getattr(instance, "judges_by_rules", False) is True,
        )
        prepare = self._timed(self._optional(instance, definition, PREPARE_TOPIC))
        load = self._optional(instance, definition, "load_topic")
        return ValidationPolicy(definition, instance, judging, prepare, load)

    def _add_named(self, name: str) -> None:
        """Make the instance of a named policy."""
        named = self._configuration.named(name)
        assert named is not None
        definition = ConfiguredPolicy.by_name(self._configuration, named)
        if definition.interface == INTERCEPTORS:
            self._named_interceptors[name] = self._interceptor(definition)
        elif definition.interface == VALIDATORS:
            self._named_policies[name] = self._validator(definition)
        elif definition.interface == VALIDATION:
            self._named_validations[name] = self._validation_policy(definition)
            self._named_policies[name] = self._named_validations[name].record_policy
        else:
            method = self._with_client(name, self._records_instance(definition).validate)
            self._named_policies[name] = BatchPolicy(name, method)

    def _admin_policy(self, names: Sequence[str], key: str) -> AdminPolicy | None:
        for name in names:
            definition = self._by_class(name, key)
            instance = self._instance(self._load(definition, "validate"), definition)
            complaint = signature_error(instance.validate)
            if complaint:
                raise ConfigurationError(f"{definition.where}: {complaint}")
            return AdminPolicy(name, instance)
        return None

    def _interceptor(self, definition: ConfiguredPolicy) -> Interceptor:
        instance = self._instance(self._load(definition, "process_record"), definition)
        where = f"{definition.where}: interceptor_topic_pattern()"
        self._check_overriding(instance, definition, ("interceptor_topic_pattern",))
        try:
            pattern = re.compile(instance.interceptor_topic_pattern())
        except (Exception, SystemExit) as error:
            raise unusable_by(error, f"{where} failed: {describe(error)}") from None
        if not isinstance(pattern.pattern, str):
            raise ConfigurationError(f"{where} must give a pattern for text, not for bytes")
        if not may_be_in_names(pattern):
            raise ConfigurationError(
                f"{where}: topics {pattern.pattern!r} is a regular expression that is found in no "
                "topic's name; for several topics, write a|b"
            )
        if isinstance(instance, CountsPaths):
            self._with_paths.append((definition.name, instance))
        code = self._configuration.produce_request_interceptors_failed_error_code
        by_record, by_batch = self._callables(instance, definition)
        prepare = self._preparation(instance, definition)
        drops_records = getattr(instance, "drops_records", True) is not False
        return Interceptor(
            definition.name,
            pattern,
            by_record,
            code,
            by_batch,
            prepare,
            drops_records=drops_records,
            reads_timestamps=_reads_timestamps(instance),
        )


def _reads_timestamps(instance: Any) -> bool:
    says_so = getattr(instance, "reads_timestamps", True) is not False
    return says_so or adds_methods(type(instance))


def _judging(key: str) -> tuple[str, ...]:
    """Return the methods that judge, of the interface of a key."""
    methods = _METHODS.get(key)
    return (methods.by_record, methods.by_batch) if methods is not None else ("validate",)


def _prepares(cls: object) -> bool:
    """Return whether a class of KIP-940 has methods that prepare for a topic."""
    interfaces = OF_VALIDATION_POLICIES.interfaces
    return any(
        callable(method) and all(method is not getattr(each, name, None) for each in interfaces)
        for name in (PREPARE_TEXT, PREPARE_TOPIC)
        for method in (getattr(cls, name, None),)
    )


def _ignore(_begins: bool) -> None:
    """Do nothing: there is no limit for the time in which policies prepare."""


def _ignore_class(_name: str) -> None:
    """Do nothing: no other part needs to know the loaded class of KIP-686."""


def _close(instance: Any) -> str | None:
    """Close an instance; return an error if it raises."""
    try:
        instance.close()
    except (Exception, SystemExit) as error:
        return f"{type(instance).__qualname__}.close: {type(error).__name__}"
    return None
