"""Topics that a worker loads while it has nothing to judge: `load_topic` of a policy of KIP-940."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.configuration import ConfigurationError
from penstock.engine.workers.messages import TopicsLoaded
from penstock.policy import RetriableException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.instances import PolicyInstances
    from penstock.engine.plans.topic_plan import TopicPlan


class TopicLoading:
    """The topics that are not loaded yet. True while there are any."""

    def __init__(self, policies: PolicyInstances, on_loading: Callable[[int], None]) -> None:
        """Load nothing yet.

        Args:
            policies: The policies that judge the topics.
            on_loading: Called with a different number before each topic, and with 0 after it.
        """
        self._policies = policies
        self._on_loading = on_loading
        self._remaining_plans: deque[TopicPlan] = deque()
        self._number = 0
        self._loaded_count = 0
        self._total = 0
        self._problem = ""

    def __bool__(self) -> bool:
        return bool(self._remaining_plans)

    def add(self, plans: Iterable[TopicPlan]) -> None:
        """Load these, too."""
        previous_count = len(self._remaining_plans)
        self._remaining_plans.extend(plans)
        self._total += len(self._remaining_plans) - previous_count

    def load_next(self) -> TopicsLoaded | None:
        """Load one topic.

        If what the policy requests is unavailable, it is not requested for the other topics: their
        first batches request it.

        Returns:
            The outcome for all topics, after the last topic; None before.
        """
        plan = self._remaining_plans.popleft()
        self._number += 1
        self._on_loading(self._number)
        try:
            self._policies.load_topic(plan)
        except RetriableException as error:
            self._add_problem(f"topic {plan.topic}: {error.message}")
            self._remaining_plans.clear()
        except ConfigurationError as error:
            self._add_problem(str(error))
        else:
            self._loaded_count += 1
        finally:
            self._on_loading(0)
        if self._remaining_plans:
            return None
        report = TopicsLoaded(self._loaded_count, self._total, self._problem)
        self._loaded_count = self._total = 0
        self._problem = ""
        return report

    def _add_problem(self, text: str) -> None:
        self._problem = self._problem or text
