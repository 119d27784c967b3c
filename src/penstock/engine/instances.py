"""The configured instances of the policy classes, in the process that runs them.

Life cycle, as the proposals have it: an instance is made without arguments, configured once
before its first call, and closed once. Calls never overlap: each process has its own
instances and runs them from one thread. The classes of KIP-729, KIP-905 and KIP-940 have one
instance; the class of KIP-686 has one for each topic, which ends when the topic does or has
another class. The classes of KIP-108 and KIP-133 have one, in the one process that calls them.
"""

from __future__ import annotations

import inspect
import re
import sys
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import RECORDS_POLICY, VALIDATION_POLICY
from penstock.engine.admin_policies import AdminPolicy, signature_error
from penstock.engine.batch_methods import (
    OF_INTERCEPTORS,
    OF_VALIDATION_POLICIES,
    OF_VALIDATORS,
    Callables,
    callables,
    check_context,
    overrides,
    takes_context,
)
from penstock.engine.interceptor_chain import Interceptor
from penstock.engine.loading import ClassPath, describe, load_class
from penstock.engine.objections import RecordPolicy
from penstock.engine.overriding import check_overriding, hint_of
from penstock.engine.plan import ALTER_CONFIG, CREATE_TOPIC, Plan
from penstock.policy import (
    AlterConfigPolicy,
    AlterConfigPolicyWithContext,
    ClientContext,
    CreateTopicPolicy,
    CreateTopicPolicyWithContext,
    RecordIntrospectionHints,
    RetriableException,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.configuration import PolicyConfiguration
    from penstock.engine.batch_methods import Methods
    from penstock.engine.plan import TopicPlan

VALIDATORS: Final = "record.validator.classes"
VALIDATION: Final = "record.validation.policy.class.name"
RECORDS: Final = RECORDS_POLICY
_RECORDS_ARGUMENTS: Final = len(("topic", "partition", "records"))
_PREPARE: Final = "prepare_validation_policy"
"""A method that a class of KIP-940 may have: it reads a topic's text before a record comes."""
_WILDCARDS: Final = frozenset("*?[")
INTERCEPTORS: Final = "produce.request.interceptors"
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
_OF_OTHERS: Final = {
    CREATE_TOPIC: (AlterConfigPolicy, AlterConfigPolicyWithContext),
    ALTER_CONFIG: (CreateTopicPolicy, CreateTopicPolicyWithContext),
}
"""By key, the interfaces with the same methods that judge something else."""
NOBODY: Final = ClientContext()
"""Where it is not known who sent records."""


class PolicyInstances:
    """Loads, configures and closes policy instances.

    Attributes:
        client: Who sent the records that are judged next, for methods that take a context.
        takes_client: The names of the classes of records of which a method does.
    """

    def __init__(
        self,
        configuration: PolicyConfiguration,
        names: Mapping[str, Sequence[str]],
        *,
        given: Mapping[str, Callable[[], Any]] = MappingProxyType({}),
    ) -> None:
        """Load and configure every class that is named.

        One instance of each `RecordsPolicy` is configured in advance, for the first topic that
        uses it, so that errors of `configure` are raised at start.

        Args:
            configuration: What `configure()` receives, and where classes are looked for.
            names: Class names by the key that names them, as `Plan.names` gives them.
            given: Factories of instances by class name, instead of loading the class.

        Raises:
            ConfigurationError: A class cannot be loaded or configured.
        """
        self._configuration = configuration
        self._given = given
        self._open: list[Any] = []
        self.client = NOBODY
        self.takes_client: set[str] = set()
        self._told_of: set[str] = set()
        self.on_records_class: Callable[[str], None] = _ignore_class
        folder = str(configuration.folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        self._interceptors = [self._interceptor(name) for name in names.get(INTERCEPTORS, ())]
        self.validators: dict[str, RecordPolicy] = {}
        for name in names.get(VALIDATORS, ()):
            cls = self._load(name, VALIDATORS, "validate_record")
            found = self._callables(self._instance(cls, name, VALIDATORS), name, VALIDATORS)
            self.validators[name] = RecordPolicy(name, *found)
        self.on_preparing: Callable[[bool], None] = _ignore
        self._prepare_topic: Callable[..., Any] | None = None
        self._load_topic: Callable[..., Any] | None = None
        self.validation: Any = None
        self.validation_policy: RecordPolicy | None = None
        self.hints = RecordIntrospectionHints()
        for name in names.get(VALIDATION, ()):
            self.validation = self._instance(self._load_validation(name), name, VALIDATION)
            found = self._callables(self.validation, name, VALIDATION)
            prepare = self._preparation(self.validation, name, VALIDATION, OF_VALIDATION_POLICIES)
            self.validation_policy = RecordPolicy(name, *found, prepare)
            self._prepare_topic = self._timed(self._optional(name, "prepare_topic"))
            self._load_topic = self._optional(name, "load_topic")
            self.hints = self._hints(name)
            self._prepare_defaults()
            self._prepare_named_topics()
        self._records_classes: dict[str, Callable[[], Any]] = {}
        self._records_ahead: dict[str, Any] = {}
        self._records_by_topic: dict[tuple[str, str], Any] = {}
        for name in names.get(RECORDS, ()):
            self._records_ahead[name] = self._records_instance(name)
        self.create_topic = self._admin_policy(names.get(CREATE_TOPIC, ()), CREATE_TOPIC)
        self.alter_config = self._admin_policy(names.get(ALTER_CONFIG, ()), ALTER_CONFIG)

    @property
    def patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        """The class name and topic pattern of each interceptor, in order."""
        return [(one.name, one.pattern) for one in self._interceptors]

    @property
    def drops_records(self) -> bool:
        """Whether an interceptor may drop records."""
        return any(one.drops_records for one in self._interceptors)

    @property
    def judges_columns(self) -> bool:
        """Whether a validator, the validation policy or an interceptor is given whole batches.

        It is to judge or process them, or only to prepare for that.
        """
        policies = filter(None, (*self.validators.values(), self.validation_policy))
        return any(one.validate_batch or one.prepare_batch for one in policies) or any(
            one.is_apart for one in self._interceptors
        )

    def interceptors_for(self, topic: str) -> list[Interceptor]:
        """Return the interceptors for a topic, in the order of the configuration."""
        return [one for one in self._interceptors if one.pattern.search(topic)]

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
            instance = self._records_instance(name)
        self._records_by_topic[topic, name] = instance
        return instance

    def judging_records(self, name: str, topic: str) -> Any:
        """Return the topic's own instance of a class of KIP-686, or what passes it the client.

        Raises:
            ConfigurationError: It cannot be configured.
        """
        instance = self.records_policy(name, topic)
        if name not in self.takes_client:
            return instance
        return SimpleNamespace(validate=self._given_client(name, instance.validate))

    def _records_instance(self, name: str) -> Any:
        """Return a new instance of a class of KIP-686."""
        if name not in self._records_classes:
            self._records_classes[name] = self._load(name, RECORDS, "validate")
        instance = self._instance(self._records_classes[name], name, RECORDS)
        if takes_context(instance.validate):
            try:
                check_context(instance.validate, "validate", _RECORDS_ARGUMENTS)
            except TypeError as error:
                self._close_one(instance)
                where = f"{self._configuration.path}: {RECORDS}: {name}"
                raise ConfigurationError(f"{where}: {error}") from None
            self.takes_client.add(name)
        if name not in self._told_of:
            self._told_of.add(name)
            self.on_records_class(name)
        return instance

    def _given_client(self, name: str, method: Any) -> Any:
        """Return a method as it is called: with the client, if it takes one."""
        if method is None or not takes_context(method):
            return method
        self.takes_client.add(name)
        return lambda *arguments: method(*arguments, context=self.client)

    def retire(self, name: str, topic: str) -> str | None:
        """Close a topic's own instance of a class of KIP-686, if it has one; return an error."""
        instance = self._records_by_topic.pop((topic, name), None)
        return None if instance is None else self._close_one(instance)

    def try_records_policy(self, name: str) -> None:
        """Load, configure and close a class of KIP-686, to see that it can be.

        Raises:
            ConfigurationError: It cannot be.
        """
        self._close_one(self._records_instance(name))

    def prepare_validation(self, text: str) -> None:
        """Have the validation policy read a topic's `record.validation.policy`, if it can.

        Raises:
            ConfigurationError: It cannot judge by this text.
        """
        objection = _objection(self.validation, text)
        if objection is not None:
            raise ConfigurationError(f"{VALIDATION_POLICY}={text}: {objection}")

    def prepare_topic(self, plan: TopicPlan) -> None:
        """Have the validation policy prepare for a topic, if it can.

        Raises:
            ConfigurationError: It cannot judge the topic, or fails.
        """
        if self._prepare_topic is None or plan.validation_policy is None:
            return
        try:
            self._prepare_topic(plan.topic, MappingProxyType(dict(plan.validation_configs)))
        except RetriableException:
            pass  # it is asked again with each batch
        except ValueError as error:
            raise ConfigurationError(f"topic {plan.topic}: {error}") from None
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"topic {plan.topic}: {describe(error)}") from None

    @property
    def loads_topics(self) -> bool:
        """Whether the validation policy has a method to load topics."""
        return self._load_topic is not None

    def load_topic(self, plan: TopicPlan) -> None:
        """Have the validation policy look up what judging a topic needs, if it can.

        Raises:
            RetriableException: What it asks is away.
            ConfigurationError: It cannot judge the topic, or fails.
        """
        if self._load_topic is None:
            return
        try:
            self._load_topic(plan.topic, MappingProxyType(dict(plan.validation_configs)))
        except (RetriableException, KeyboardInterrupt):
            raise
        except ValueError as error:
            raise ConfigurationError(f"topic {plan.topic}: {error}") from None
        except BaseException as error:  # a panic of native code is no Exception
            raise ConfigurationError(f"topic {plan.topic}: {describe(error)}") from None

    def try_validation_policy(self, name: str, text: str) -> str | None:
        """See whether a class of KIP-940 can judge by a text, if it has a method to say so.

        Returns:
            What the class objects to, for whoever has set the text; None if it can judge.

        Raises:
            ConfigurationError: The class cannot be used, or fails.
        """
        cls = self._load_validation(name)
        if not callable(getattr(cls, _PREPARE, None)):
            return None
        instance = self._instance(cls, name, VALIDATION)
        try:
            return _objection(instance, text)
        finally:
            self._close_one(instance)

    def _prepare_defaults(self) -> None:
        for default in self._configuration.topic_defaults:
            if default.key != VALIDATION_POLICY:
                continue
            try:
                self.prepare_validation(default.value)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"{self._configuration.path}: topics.{default.glob}.{error}"
                ) from None

    def _prepare_named_topics(self) -> None:
        """Prepare for the topics that the file names without a wildcard."""
        if self._prepare_topic is None:
            return
        plan = Plan(self._configuration)
        for topic in dict.fromkeys(one.glob for one in self._configuration.topic_defaults):
            found = None if _WILDCARDS.intersection(topic) else plan.for_topic(topic)
            if found is not None:
                try:
                    self.prepare_topic(found)
                except ConfigurationError as error:
                    raise ConfigurationError(f"{self._configuration.path}: {error}") from None

    def _optional(self, name: str, method: str) -> Callable[..., Any] | None:
        """Return a method of the validation policy that it need not have."""
        try:
            return overrides(self.validation, method, OF_VALIDATION_POLICIES.interfaces)
        except TypeError as error:
            raise ConfigurationError(
                f"{self._configuration.path}: {VALIDATION}: {name}: {error}"
            ) from None

    def _timed(self, prepare: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a method that tells `on_preparing` when it is at work, and when no longer."""
        if prepare is None:
            return None

        def timed(*arguments: Any) -> None:
            self.on_preparing(True)
            try:
                prepare(*arguments)
            finally:
                self.on_preparing(False)

        return timed

    def _close_one(self, instance: Any) -> str | None:
        """Close an instance before the others, if it has a close(); return an error."""
        others = [one for one in self._open if one is not instance]
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

    def _load(
        self, name: str, key: str, method: str, space: ClassPath | None = None
    ) -> Callable[[], Any]:
        """Load a class that has a method, or the one for batches that may stand in its place."""
        if name in self._given:
            return self._given[name]
        file = self._configuration.path
        cls = load_class(name, key=key, file=file, space=space)
        found = getattr(cls, method, None)
        if not callable(found):
            other = _METHODS[key].by_batch if key in _METHODS else ""
            if callable(getattr(cls, other, None)):
                return cls
            names = f"{method}()" + (f" or {other}()" if other else "")
            hint = hint_of(cls, _judging(key))
            raise ConfigurationError(f"{file}: {key}: {name} has no method {names}{hint}")
        if any(is_kind(found) for is_kind in _NOT_RUN):
            raise ConfigurationError(
                f"{file}: {key}: {name}: {method}() is not run when it is called, and would let "
                "everything pass: it must not be async, and must not yield"
            )
        return cls

    def _load_validation(self, name: str) -> Callable[[], Any]:
        folders = self._configuration.class_path
        return self._load(name, VALIDATION, "validate", ClassPath(folders) if folders else None)

    def _callables(self, instance: Any, name: str, key: str) -> Callables:
        """Return the methods that are called with a record and with a batch."""
        try:
            found = callables(instance, _METHODS[key])
        except TypeError as error:
            raise ConfigurationError(
                f"{self._configuration.path}: {key}: {name}: {error}"
            ) from None
        return Callables(*(self._given_client(name, method) for method in found))

    def _preparation(
        self, instance: Any, name: str, key: str, methods: Methods
    ) -> Callable[..., Any] | None:
        """Return `prepare_batch` of a policy that has one."""
        try:
            prepare = overrides(instance, "prepare_batch", methods.interfaces)
            if takes_context(prepare):
                check_context(prepare, "prepare_batch", methods.batch_arguments)
        except TypeError as error:
            raise ConfigurationError(
                f"{self._configuration.path}: {key}: {name}: {error}"
            ) from None
        return self._timed(self._given_client(name, prepare))

    def _instance(self, cls: Callable[[], Any], name: str, key: str) -> Any:
        where = f"{self._configuration.path}: {key}: {name}"
        try:
            instance = cls()
        except (Exception, SystemExit) as error:
            raise ConfigurationError(
                f"{where}: cannot be made without arguments: {describe(error)}"
            ) from None
        use_folder = getattr(instance, "use_folder", None)
        if callable(use_folder):
            use_folder(self._configuration.folder)
        configure = getattr(instance, "configure", None)
        # KIP-729 has neither configure() nor close(), the configure() of KIP-905 no arguments.
        if key != VALIDATORS and callable(configure):
            try:
                if key == INTERCEPTORS:
                    configure()
                else:
                    configure(self._configuration.properties)
            except (Exception, SystemExit) as error:
                raise ConfigurationError(
                    f"{where}: configure() failed: {describe(error)}"
                ) from None
        if key != VALIDATORS and callable(getattr(instance, "close", None)):
            self._open.append(instance)
        try:
            check_overriding(instance, _judging(key))
        except TypeError as error:
            raise ConfigurationError(f"{where}: {error}") from None
        return instance

    def _admin_policy(self, names: Sequence[str], key: str) -> AdminPolicy | None:
        for name in names:
            cls = self._load(name, key, "validate")
            if isinstance(cls, type) and issubclass(cls, _OF_OTHERS[key]):
                raise ConfigurationError(
                    f"{self._configuration.path}: {key}: {name} is a policy of another kind"
                )
            instance = self._instance(cls, name, key)
            complaint = signature_error(instance.validate)
            if complaint:
                raise ConfigurationError(f"{self._configuration.path}: {key}: {name}: {complaint}")
            return AdminPolicy(name, instance)
        return None

    def _interceptor(self, name: str) -> Interceptor:
        cls = self._load(name, INTERCEPTORS, "process_record")
        instance = self._instance(cls, name, INTERCEPTORS)
        where = f"{self._configuration.path}: {INTERCEPTORS}: {name}: interceptor_topic_pattern()"
        try:
            pattern = re.compile(instance.interceptor_topic_pattern())
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{where} failed: {describe(error)}") from None
        if not isinstance(pattern.pattern, str):
            raise ConfigurationError(f"{where} must give a pattern for text, not for bytes")
        code = self._configuration.produce_request_interceptors_failed_error_code
        by_record, by_batch = self._callables(instance, name, INTERCEPTORS)
        prepare = self._preparation(instance, name, INTERCEPTORS, OF_INTERCEPTORS)
        drops_records = getattr(instance, "drops_records", True) is not False
        return Interceptor(
            name, pattern, by_record, code, by_batch, prepare, drops_records=drops_records
        )

    def _hints(self, name: str) -> RecordIntrospectionHints:
        """Read the hints once, after configure()."""
        where = f"{self._configuration.path}: {VALIDATION}: {name}: get_hints()"
        get_hints = getattr(self.validation, "get_hints", None)
        if not callable(get_hints):
            return RecordIntrospectionHints()
        try:
            given = get_hints()
            hints = RecordIntrospectionHints(
                bool(given.access_headers),
                int(given.access_key_bytes),
                int(given.access_value_bytes),
            )
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{where} failed: {describe(error)}") from None
        if hints.access_key_bytes < 0 or hints.access_value_bytes < 0:
            raise ConfigurationError(f"{where}: bytes must be 0 or more, or ALL: {hints}")
        return hints


def _judging(key: str) -> tuple[str, ...]:
    """Return the methods that judge, of the interface of a key."""
    methods = _METHODS.get(key)
    return (methods.by_record, methods.by_batch) if methods is not None else ("validate",)


def _ignore(_begins: bool) -> None:
    """Do nothing: nobody limits how long policies prepare."""


def _ignore_class(_name: str) -> None:
    """Do nothing: nobody has to know which class of KIP-686 was loaded."""


def _objection(validation: Any, text: str) -> str | None:
    prepare = getattr(validation, _PREPARE, None)
    if not callable(prepare):
        return None
    try:
        prepare(text)
    except ValueError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{VALIDATION_POLICY}={text}: {describe(error)}") from None
    return None


def _close(instance: Any) -> str | None:
    """Close an instance; return an error if it raises."""
    try:
        instance.close()
    except (Exception, SystemExit) as error:
        return f"{type(instance).__qualname__}.close: {type(error).__name__}"
    return None
