"""A configured policy of KIP-940, with the methods that it need not have."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from penstock.configuration import ConfigurationError
from penstock.configuration.topic_keys import VALIDATION_POLICY
from penstock.engine.not_now import unusable_by
from penstock.engine.plans.loading import describe
from penstock.engine.plans.overriding import adds_methods
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.engine.objections import RecordPolicy
    from penstock.engine.plans.configured_policy import ConfiguredPolicy
    from penstock.engine.plans.topic_plan import TopicPlan
    from penstock.policy import RecordIntrospectionHints

PREPARE_TEXT: Final = "prepare_validation_policy"
"""A method that a class of KIP-940 may have: it reads a topic's text before a record comes."""
PREPARE_TOPIC: Final = "prepare_topic"
"""Another one: it prepares for a topic before a record comes."""


class ValidationPolicy:
    """An instance, and how it prepares for topics.

    Attributes:
        record_policy: How it judges records.
        load: Its `load_topic`; None where it has none.
    """

    def __init__(
        self,
        definition: ConfiguredPolicy,
        instance: Any,
        judging: RecordPolicy,
        prepare: Callable[..., Any] | None,
        load: Callable[..., Any] | None,
    ) -> None:
        self._definition = definition
        self._prepare = prepare
        self.instance = instance
        self.record_policy = judging
        self.load = load

    def hints_for(self, texts: Collection[str]) -> list[RecordIntrospectionHints]:
        """Return how much of a record it looks at, where topics have one of these texts."""
        narrower = getattr(self.instance, "hints_for_text", None)
        if callable(narrower) and not adds_methods(type(self.instance)):
            return [narrower(text) for text in texts]
        return [] if self.record_policy.hints is None else [self.record_policy.hints]

    def prepare_text(self, text: str) -> None:
        """Let it read a topic's `record.validation.policy`, if it can.

        Raises:
            ConfigurationError: It cannot judge by this text.
        """
        objection = objection_to(self.instance, text)
        if objection is not None:
            raise ConfigurationError(self._about_text(text, objection))

    def _about_text(self, text: str, objection: str) -> str:
        if self._definition.is_named and not text:
            return f"{self._definition.name}: {objection}"
        return f"{VALIDATION_POLICY}={text}: {objection}"

    def objection_to(self, plan: TopicPlan) -> str | None:
        """Let it read a topic's text, if it judges by that, and prepare for the topic.

        Returns:
            Its objection, for the user who alters the topic; None if it can judge the topic.

        Raises:
            ConfigurationError: It fails.
        """
        text = self._text_of(plan)
        objection = None if text is None else objection_to(self.instance, text)
        return self.objection_to_topic(plan) if objection is None else objection

    def prepare_topic(self, plan: TopicPlan) -> None:
        """Let it prepare for a topic, if it can.

        Raises:
            ConfigurationError: It cannot judge the topic, or fails.
        """
        objection = self.objection_to_topic(plan)
        if objection is not None:
            raise ConfigurationError(f"{self._topic(plan)}: {objection}")

    def objection_to_topic(self, plan: TopicPlan) -> str | None:
        """Let it prepare for a topic, if it can.

        Returns:
            Its objection, for the user who names it for the topic; None if it can judge the topic.

        Raises:
            ConfigurationError: It fails.
        """
        if self._prepare is None:
            return None
        try:
            self._prepare(plan.topic, self.configs(plan))
        except RetriableException:
            pass  # it is loaded again with each batch
        except ValueError as error:
            return str(error)
        except (Exception, SystemExit) as error:
            raise unusable_by(error, f"{self._topic(plan)}: {describe(error)}") from None
        return None

    def prepare_for(self, plan: TopicPlan) -> None:
        """Let it read a topic's text, if it judges by that, and prepare for the topic.

        Raises:
            ConfigurationError: It cannot judge the topic, or fails.
        """
        self.read_text_of(plan)
        self.prepare_topic(plan)

    def read_text_of(self, plan: TopicPlan) -> None:
        """Let it read a topic's text, if it judges by that.

        Raises:
            ConfigurationError: It cannot judge by it.
        """
        text = self._text_of(plan)
        if text is not None:
            self.prepare_text(text)

    def _text_of(self, plan: TopicPlan) -> str | None:
        """Return a topic's text; None if it does not judge by that."""
        text = plan.validation_setting or ""
        return text if text or not self.configs(plan) else None

    def load_topic(self, plan: TopicPlan) -> None:
        """Let it look up what it needs to judge a topic, if it can.

        Raises:
            RetriableException: A service that it uses is away.
            ConfigurationError: It cannot judge the topic, or fails.
        """
        if self.load is None:
            return
        try:
            self.load(plan.topic, self.configs(plan))
        except (RetriableException, KeyboardInterrupt):
            raise
        except ValueError as error:
            raise ConfigurationError(f"{self._topic(plan)}: {error}") from None
        except BaseException as error:  # a panic of native code is no Exception
            raise unusable_by(error, f"{self._topic(plan)}: {describe(error)}") from None

    def configs(self, plan: TopicPlan) -> Mapping[str, str]:
        """Return the topic level keys that it declares, as a topic has them."""
        configs = plan.validation_configs
        if self._definition.is_named:
            configs = self._definition.topic_configs or {}
        return MappingProxyType(dict(configs))

    def _topic(self, plan: TopicPlan) -> str:
        return f"topic {plan.topic}" + (
            f": {self._definition.name}" if self._definition.is_named else ""
        )


def objection_to(instance: Any, text: str) -> str | None:
    """Return the objection of an instance to a topic's text; None if it can judge by it.

    Raises:
        ConfigurationError: It fails.
    """
    prepare = getattr(instance, PREPARE_TEXT, None)
    if not callable(prepare):
        return None
    try:
        prepare(text)
    except ValueError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        raise unusable_by(error, f"{VALIDATION_POLICY}={text}: {describe(error)}") from None
    return None
